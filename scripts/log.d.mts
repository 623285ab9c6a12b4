export function keptLine(line: string): string | null;
