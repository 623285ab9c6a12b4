const here = new URL(location.href);

/**
 * Replaces the address of a refused form by the address of the form's page, so that Back and Reload do not send the form again.
 * A notice appears only once.
 */
function tidyHistory(): void {
  const isAnswer = document.body.dataset.refused !== undefined;
  if (isAnswer && document.referrer.startsWith(`${here.origin}/admin/`)) {
    history.replaceState(null, "", document.referrer);
  } else if (here.searchParams.has("notice")) {
    here.searchParams.delete("notice");
    history.replaceState(null, "", here);
  }
}

/** Moves the focus to the search field on `/` and Ctrl-K, to the next or previous row on j and k, and closes menus on Escape. */
function onKey(event: KeyboardEvent): void {
  if (event.key === "Escape") closeMenus(null);
  const target = event.target as HTMLElement;
  const isTyping = target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
  const isCommand = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
  if (!isCommand && (isTyping || event.ctrlKey || event.metaKey || event.altKey)) return;
  if (!isCommand && (event.key === "j" || event.key === "k")) moveRow(event.key === "j" ? 1 : -1);
  if (!isCommand && event.key !== "/") return;
  const field = document.querySelector<HTMLInputElement>("#search");
  if (field === null) return;
  event.preventDefault();
  field.focus();
  field.select();
}

/** Moves the focus to the first link of the next or the previous row that has one. Enter then opens it. */
function moveRow(step: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLTableRowElement>("main tbody tr")].flatMap((row) => {
    const link = row.querySelector<HTMLAnchorElement>("a[href]");
    return link === null || link.offsetParent === null ? [] : [link];
  });
  const row = document.activeElement?.closest("tr");
  const at = links.findIndex((link) => link.closest("tr") === row);
  links[at === -1 ? (step === 1 ? 0 : links.length - 1) : at + step]?.focus();
}

function closeMenus(but: Element | null): void {
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.row-menu[open], details.switcher[open]")) {
    if (menu !== but) menu.open = false;
  }
}

/** Places a row's menu above the table, which would otherwise clip it. */
function placeMenu(menu: HTMLDetailsElement): void {
  const list = menu.querySelector<HTMLElement>(".menu-list");
  if (list === null || !menu.open) return;
  const { top, bottom, right } = menu.getBoundingClientRect();
  const isAbove = bottom + list.offsetHeight > innerHeight;
  list.style.position = "fixed";
  list.style.inset = "auto";
  list.style.top = `${isAbove ? top - list.offsetHeight - 4 : bottom + 4}px`;
  list.style.left = `${Math.max(8, right - list.offsetWidth)}px`;
}

interface App {
  readonly appId: string;
  readonly name: string;
}

/** Reads the applications of the switcher when it is first opened. */
async function fillSwitcher(switcher: HTMLDetailsElement): Promise<void> {
  const list = switcher.querySelector<HTMLElement>("[data-apps]");
  const source = list?.dataset.apps;
  if (list === null || source === undefined || !switcher.open) return;
  delete list.dataset.apps;
  const answer = await fetch(source, { headers: { accept: "application/json" } }).catch(() => null);
  if (answer === null || !answer.ok) return;
  const { apps } = (await answer.json()) as { readonly apps: readonly App[] };
  const { app: current = "", mode = "live" } = switcher.dataset;
  for (const { appId, name } of apps) {
    const link = document.createElement("a");
    link.href = `/admin/apps/${encodeURIComponent(appId)}/${mode}/overview`;
    link.textContent = name;
    if (appId === current) link.setAttribute("aria-current", "true");
    list.append(link);
  }
}

export function startShell(): void {
  tidyHistory();
  addEventListener("keydown", onKey);
  addEventListener("click", (event) => closeMenus((event.target as Element).closest("details")));
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.row-menu")) {
    menu.addEventListener("toggle", () => placeMenu(menu));
  }
  addEventListener("scroll", () => closeMenus(null), { capture: true, passive: true });
  const switcher = document.querySelector<HTMLDetailsElement>("details.switcher");
  switcher?.addEventListener("toggle", () => void fillSwitcher(switcher));
}
