/** A month's first moment and the next month's, in UTC milliseconds. Null for text that is no month. */
export function spanOfMonth(month: string): { readonly fromMs: number; readonly toMs: number } | null {
  const [, year, number] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(month) ?? [];
  if (year === undefined || number === undefined) return null;
  return { fromMs: Date.UTC(Number(year), Number(number) - 1), toMs: Date.UTC(Number(year), Number(number)) };
}
