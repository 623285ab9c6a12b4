/** Returns the texts of a cell, with a space between its elements. */
function textOf(cell: Element | undefined): string {
  if (cell === undefined) return "";
  const texts: string[] = [];
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push(walker.currentNode.textContent?.trim() ?? "");
  return texts.filter((text) => text !== "").join(" ");
}

/** Returns the sort key of a cell: its time, its number, or its text. */
function keyOf(row: HTMLTableRowElement, column: number): string | number {
  const cell = row.cells[column];
  const moment = cell?.querySelector("time")?.dateTime;
  if (moment !== undefined) return Date.parse(moment);
  const text = textOf(cell);
  const number = Number(/^[+\-−$€£]?([\d,]+(?:\.\d+)?)/.exec(text)?.[1]?.replaceAll(",", "") ?? Number.NaN);
  return Number.isNaN(number) ? text.toLowerCase() : number * (/^[-−]/.test(text) ? -1 : 1);
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Sorts the rows on the page. */
function sortBy(table: HTMLTableElement, column: number): void {
  const head = table.tHead?.rows[0]?.cells[column];
  const body = table.tBodies[0];
  if (head === undefined || body === undefined) return;
  const isDown = head.getAttribute("aria-sort") !== "descending";
  for (const each of table.tHead?.rows[0]?.cells ?? []) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const keyed = Array.from(body.rows, (row) => ({ row, key: keyOf(row, column) }));
  keyed.sort((a, b) => (isDown ? compare(b.key, a.key) : compare(a.key, b.key)));
  body.append(...keyed.map(({ row }) => row));
}

const isFormula = (text: string): boolean => /^[=+\-@\t\r]/.test(text) && !/^\+\d+$/.test(text);
/** Returns a CSV cell that no spreadsheet reads as a formula, by the rule of src/lib/encoding.ts. */
const csvCell = (text: string): string => `"${(isFormula(text) ? `'${text}` : text).replaceAll('"', '""')}"`;

function csvOf(table: HTMLTableElement): string {
  const lines = Array.from(table.rows, (row) =>
    Array.from(row.cells, (cell) => {
      if (cell.classList.contains("menu")) return "";
      const moment = cell.querySelector("time")?.dateTime;
      return csvCell(moment ?? textOf(cell));
    }).join(","),
  );
  return `\ufeff${lines.join("\r\n")}\r\n`;
}

function saveCsv(button: HTMLButtonElement): void {
  const table = document.getElementById(button.dataset.csv ?? "")?.querySelector("table");
  if (table === null || table === undefined) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csvOf(table)], { type: "text/csv" }));
  link.download = `${button.dataset.file ?? "list"}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function startTables(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>(".scroll table")) {
    if ((table.tBodies[0]?.rows.length ?? 0) < 2) continue;
    for (const [column, head] of Array.from(table.tHead?.rows[0]?.cells ?? []).entries()) {
      if (head.textContent === "" || head.querySelector("*") !== null) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sortBy(table, column));
      head.replaceChildren(button);
    }
  }
  addEventListener("click", (event) => {
    const button = (event.target as Element).closest<HTMLButtonElement>("button[data-csv]");
    if (button !== null) saveCsv(button);
    // The boxes of a form may stand outside it, in the rows of a table.
    const ticker = (event.target as Element).closest<HTMLButtonElement>("button[data-tick]");
    for (const box of ticker?.form?.elements ?? []) {
      if (box instanceof HTMLInputElement && box.type === "checkbox") box.checked = true;
    }
  });
}
