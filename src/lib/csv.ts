/** A cell of a CSV line: quoted, so that no spreadsheet reads it as a formula. A number has all its digits, and no thousands. */
export function csvCell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value !== "string") return JSON.stringify(value);
  const harmless = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return `"${harmless.replaceAll('"', '""')}"`;
}
