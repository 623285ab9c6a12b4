/** The dashboard's only script: copy buttons, new rows, and the test of rules while typing. Every page works without it. */
export const script = `"use strict";
addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.copy) {
    const field = document.getElementById(button.dataset.copy);
    const status = document.querySelector('[data-copied="' + button.dataset.copy + '"]');
    try {
      await navigator.clipboard.writeText(field.value);
      status.textContent = "Copied";
    } catch {
      field.select();
      status.textContent = "Press Ctrl+C to copy";
    }
  }
  if (button.dataset.add) {
    const list = button.closest("[data-scope]").querySelector('[data-list="' + button.dataset.add + '"]');
    const template = list.querySelector(":scope > template");
    const next = String(1 + Math.max(-1, ...[...list.children].map((row) => Number(row.dataset.index ?? -1))));
    const holder = document.createElement("div");
    holder.innerHTML = template.innerHTML.replaceAll(template.dataset.mark, next);
    const row = holder.firstElementChild;
    row.dataset.index = next;
    list.append(row);
    const legend = row.querySelector(":scope > legend");
    if (legend) legend.textContent = "Item " + list.querySelectorAll(":scope > fieldset").length;
    row.querySelector("input:not([type=hidden]), select").focus();
  }
  if (button.dataset.remove !== undefined) {
    const row = button.closest("[data-index]");
    const form = row.closest("form");
    const scope = row.parentElement.closest("[data-scope]");
    row.remove();
    scope?.querySelector("[data-add]")?.focus();
    if (form) testRules(form);
  }
});

// The answer to a refused form is left for the page of that form, so that Back and Reload ask for no form to be sent again.
// A notice is said once.
const here = new URL(location.href);
const isAnswer = document.body.dataset.refused !== undefined;
if (isAnswer && document.referrer.startsWith(here.origin + "/admin/")) history.replaceState(null, "", document.referrer);
else if (here.searchParams.has("notice")) {
  here.searchParams.delete("notice");
  history.replaceState(null, "", here);
}

// A form that is on its way is not sent a second time.
addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent !== undefined) event.preventDefault();
  form.dataset.sent = "";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

let latest = 0;
async function testRules(form) {
  const tester = form.querySelector("[data-tester]");
  if (!tester) return;
  const turn = ++latest;
  const answer = await fetch(tester.dataset.tester, {
    method: "POST",
    headers: { accept: "application/json" },
    body: new URLSearchParams(new FormData(form)),
  }).catch(() => null);
  if (turn !== latest || answer === null || !answer.ok) return;
  const { verdicts } = await answer.json();
  const outputs = [...tester.querySelectorAll("[data-verdict]")];
  outputs.forEach((output) => output.remove());
  for (const verdict of verdicts) {
    const line = document.createElement("p");
    line.dataset.verdict = "";
    line.className = "verdict " + (verdict.isCovered ? "yes" : "no");
    line.textContent = (verdict.isCovered ? "✓ " : "✗ ") + verdict.name + ": " + verdict.why;
    tester.querySelector("[data-verdicts]").append(line);
  }
}

addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.target.closest("[data-tester]")) return;
  if (event.target.tagName !== "INPUT") return;
  event.preventDefault();
  testRules(event.target.closest("form"));
});

let waiting;
addEventListener("input", (event) => {
  const form = event.target.closest("form");
  if (!form || !form.querySelector("[data-tester]")) return;
  clearTimeout(waiting);
  waiting = setTimeout(() => testRules(form), 200);
});
`;
