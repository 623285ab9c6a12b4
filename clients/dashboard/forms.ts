interface Verdict {
  readonly name: string;
  readonly why: string;
  readonly isCovered: boolean;
}

/** Adds a row of a list from its template: an item, or a rule. */
function addRow(button: HTMLElement): void {
  const list = button.closest("[data-scope]")?.querySelector<HTMLElement>(`[data-list="${button.dataset.add}"]`);
  const template = list?.querySelector<HTMLTemplateElement>(":scope > template");
  if (list === null || list === undefined || template === null || template === undefined) return;
  const indexes = Array.from(list.children, (row) => Number((row as HTMLElement).dataset.index ?? -1));
  const next = String(1 + Math.max(-1, ...indexes));
  const holder = document.createElement("div");
  holder.innerHTML = template.innerHTML.replaceAll(template.dataset.mark ?? "", next);
  const row = holder.firstElementChild as HTMLElement;
  row.dataset.index = next;
  list.append(row);
  const legend = row.querySelector(":scope > legend");
  if (legend !== null) legend.textContent = `Item ${list.querySelectorAll(":scope > fieldset").length}`;
  row.querySelector<HTMLElement>("input:not([type=hidden]), select")?.focus();
}

function removeRow(button: HTMLElement): void {
  const row = button.closest("[data-index]");
  const form = row?.closest("form") ?? null;
  const scope = row?.parentElement?.closest("[data-scope]");
  row?.remove();
  scope?.querySelector<HTMLElement>("[data-add]")?.focus();
  if (form !== null) void testRules(form);
}

let latest = 0;

/** Asks the server which rules cover the typed event. */
async function testRules(form: HTMLFormElement): Promise<void> {
  const tester = form.querySelector<HTMLElement>("[data-tester]");
  if (tester === null) return;
  const turn = ++latest;
  const answer = await fetch(tester.dataset.tester ?? "", {
    method: "POST",
    headers: { accept: "application/json" },
    // The form has text fields only, and no file.
    body: new URLSearchParams(new FormData(form) as unknown as Record<string, string>),
  }).catch(() => null);
  if (turn !== latest || answer === null || !answer.ok) return;
  const { verdicts } = (await answer.json()) as { readonly verdicts: readonly Verdict[] };
  for (const output of tester.querySelectorAll("[data-verdict]")) output.remove();
  for (const verdict of verdicts) {
    const line = document.createElement("p");
    line.dataset.verdict = "";
    line.className = `verdict ${verdict.isCovered ? "yes" : "no"}`;
    line.textContent = `${verdict.isCovered ? "✓ " : "✗ "}${verdict.name}: ${verdict.why}`;
    tester.querySelector("[data-verdicts]")?.append(line);
  }
}

const TYPING_MS = 200;

export function startForms(): void {
  addEventListener("click", (event) => {
    const button = (event.target as Element).closest("button");
    if (button?.dataset.add !== undefined) addRow(button);
    if (button?.dataset.remove !== undefined) removeRow(button);
  });
  // Prevents a second submission of the same form.
  addEventListener("submit", (event) => {
    const form = event.target as HTMLFormElement;
    if (form.method !== "post") return;
    if (form.dataset.sent !== undefined) event.preventDefault();
    form.dataset.sent = "";
  });
  // A chosen file fills the field that it names.
  addEventListener("change", (event) => {
    const input = event.target as HTMLInputElement;
    const field = input.form?.elements.namedItem(input.dataset.fill ?? "");
    const [file] = input.files ?? [];
    if (file !== undefined && field instanceof HTMLTextAreaElement)
      void file.text().then((text) => (field.value = text));
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll<HTMLFormElement>("form[data-sent]")) delete form.dataset.sent;
  });
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.key !== "Enter" || target.tagName !== "INPUT" || target.closest("[data-tester]") === null) return;
    event.preventDefault();
    const form = target.closest("form");
    if (form !== null) void testRules(form);
  });
  let waiting: ReturnType<typeof setTimeout> | undefined;
  addEventListener("input", (event) => {
    const form = (event.target as Element).closest("form");
    if (form?.querySelector("[data-tester]") === null || form === null) return;
    clearTimeout(waiting);
    waiting = setTimeout(() => void testRules(form), TYPING_MS);
  });
}
