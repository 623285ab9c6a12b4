/** Returns the panels of a group of tabs. A panel may contain another group. */
const panelsOf = (group: Element) => Array.from(group.querySelectorAll<HTMLElement>(":scope > [data-tab]"));

/** Shows one panel of a group, and hides the others. */
function choose(group: Element, id: string): void {
  for (const panel of panelsOf(group)) panel.hidden = panel.id !== id;
  for (const link of group.querySelectorAll<HTMLAnchorElement>(":scope > nav a")) {
    if (link.hash === `#${id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** Shows the panels around the element that the address names, so that a link into a hidden panel works. */
function showTarget(): void {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let panel = target?.closest<HTMLElement>("[data-tab]") ?? null;
  if (panel === null) return;
  while (panel !== null) {
    const group: Element | null = panel.parentElement;
    if (group !== null) choose(group, panel.id);
    panel = group?.closest<HTMLElement>("[data-tab]") ?? null;
  }
  target?.scrollIntoView();
}

/** Shows the first panel of each group of tabs, or the one that the address names. */
export function startTabs(): void {
  for (const group of document.querySelectorAll("[data-tabs]")) {
    choose(group, panelsOf(group)[0]?.id ?? "");
    group.querySelector(":scope > nav")?.addEventListener("click", (event) => {
      const link = (event.target as Element).closest("a");
      if (link === null) return;
      event.preventDefault();
      choose(group, link.hash.slice(1));
      history.replaceState(null, "", link.hash);
    });
  }
  showTarget();
  addEventListener("hashchange", showTarget);
}
