/**
 * The styles. The element takes the page's font, colour and colour scheme. Custom properties change other values, and `::part`
 * changes anything.
 */
export const styles = `
:host {
  display: block;
  color: var(--purser-color, inherit);
  font: var(--purser-font, inherit);
  font-variant-numeric: tabular-nums;
}
:host([hidden]), [hidden] { display: none !important }
dl { margin: 0; display: grid; gap: var(--purser-gap, 0.25em) }
dl[part=limits] { margin-top: calc(2 * var(--purser-gap, 0.25em)) }
div[part=row] { display: flex; flex-wrap: wrap; gap: 0 1em }
dt, dd { margin: 0 }
dt { flex: 1 }
dd { margin-inline-start: auto; text-align: end }
dd, p { overflow-wrap: anywhere }
p { margin: var(--purser-gap, 0.25em) 0 0 }
[part~=expires], [part~=next], [part~=message] { color: var(--purser-muted, inherit); font-size: 0.9em }
[part~=low], [part~=reached] { color: var(--purser-low, #8a4600) }
@supports (color: light-dark(red, red)) { [part~=low], [part~=reached] { color: var(--purser-low, light-dark(#8a4600, #ffb870)) } }
`;
