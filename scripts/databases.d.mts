export function boundDatabases(text: string, environment?: string | null): string[];
export function deploySteps(text: string, args?: readonly string[]): string[][];
export function databaseCount(text?: string): number;
export function withDatabases(text: string, count: number): string;
export function localConfig(count: number): { readonly file: string; readonly databases: readonly string[] };
