export function squeezeSql(file: string, source: string): { readonly toString: () => string };
