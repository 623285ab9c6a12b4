/** The dashboard's only stylesheet. Each colour is defined once for light and once for dark. */
export const styles = `
:root {
  color-scheme: light dark;
  --ground: #f6f7f9; --card: #fff; --ink: #1b2430; --soft: #55616f; --line: #d9dee5;
  --accent: #1f5f8b; --on-accent: #fff; --good: #1d6b3f; --good-ground: #e5f4ea; --bad: #a02020; --bad-ground: #fdeaea;
  --test: #8a5a00; --test-ground: #fdf1d8; --bar: #2f7fb5; --bar-spent: #b5602f; --bar-warn: #a8791a; --rest: #e3e8ee; --edge: #0005;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #12161c; --card: #1b212a; --ink: #e8edf3; --soft: #a3b0bf; --line: #333d4a;
    --accent: #7cc0ea; --on-accent: #0c1a25; --good: #8fdcae; --good-ground: #17352a; --bad: #ff9c9c; --bad-ground: #401f22;
    --test: #f0c777; --test-ground: #3a2d13; --bar: #5aa9dc; --bar-spent: #e09263; --bar-warn: #dcb04d; --rest: #2c3541; --edge: #000c;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
a { color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
main:focus { outline: none; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 8px; top: 8px; background: var(--card); padding: 8px; z-index: 1; }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 18px; padding: 10px 20px; background: var(--card); border-bottom: 1px solid var(--line); }
.brand { font-weight: 700; font-size: 18px; text-decoration: none; color: var(--ink); }
.place { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 10px; }
.place { min-width: 0; max-width: 100%; }
.place b { max-width: min(16em, 40vw); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.modes { display: inline-flex; border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
.modes a { padding: 2px 10px; text-decoration: none; color: var(--soft); }
.modes a[aria-current] { background: var(--good-ground); color: var(--good); font-weight: 600; }
.modes a.test[aria-current] { background: var(--test-ground); color: var(--test); }
.bar nav { display: flex; flex-wrap: wrap; gap: 4px; flex-basis: 100%; order: 1; margin: 0 -10px; }
.bar nav a { padding: 4px 10px; border-radius: 6px; text-decoration: none; color: var(--soft); }
.bar nav a[aria-current] { background: var(--ground); color: var(--ink); font-weight: 600; }
.out { margin-left: auto; display: flex; align-items: center; gap: 12px; }
.field-error { color: var(--bad); font-size: 13px; overflow-wrap: anywhere; }
.warn-box { background: var(--test-ground); color: var(--test); border-radius: 8px; padding: 10px 14px; margin: 12px 0; }
.warn-box label { color: inherit; font-size: 15px; font-weight: 600; }
.warn-box ul { margin: 0 0 6px; padding-left: 18px; }
.more summary { cursor: pointer; color: var(--accent); margin-bottom: 12px; }
.steps li { margin-bottom: 6px; }
.ranges a[aria-current] { font-weight: 600; color: var(--ink); text-decoration: none; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); gap: 16px; }
main { max-width: 1240px; margin: 0 auto; padding: 20px; }
h1 { font-size: 24px; line-height: 1.25; margin: 8px 0 16px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0 0 10px; }
h3 { font-size: 15px; margin: 0 0 8px; overflow-wrap: anywhere; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px; margin: 0 0 16px; }
.card > :last-child { margin-bottom: 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 290px), 1fr)); gap: 16px; margin-bottom: 16px; }
.cards .card { margin: 0; }
.row { display: flex; flex-wrap: wrap; align-items: end; gap: 12px; margin-bottom: 12px; }
.field { display: flex; flex-direction: column; gap: 3px; min-width: 0; flex: 1 1 150px; }
.field.wide, .row > .wide { flex-basis: 100%; }
label { font-size: 13px; color: var(--soft); }
input, select, textarea, button { font: inherit; color: inherit; }
input:not([type="radio"], [type="checkbox"]), select { height: 39px; }
input, select, textarea { background: var(--ground); border: 1px solid var(--line); border-radius: 6px; padding: 7px 9px; width: 100%; min-width: 0; }
input[type="radio"], input[type="checkbox"] { width: auto; }
[aria-invalid="true"] { border-color: var(--bad); outline: 1px solid var(--bad); }
button, .button { background: var(--accent); color: var(--on-accent); border: 1px solid transparent; border-radius: 6px; padding: 7px 14px; cursor: pointer; font-weight: 600; text-decoration: none; display: inline-block; white-space: nowrap; }
button.quiet, .button.quiet { background: transparent; color: var(--accent); border-color: var(--line); font-weight: 500; }
button.danger { background: var(--bad); color: var(--card); }
p { margin: 0 0 10px; }
h3:not(:first-child) { margin-top: 14px; }
.hint, .soft { color: var(--soft); font-size: 13px; }
.notice { padding: 10px 14px; border-radius: 8px; overflow-wrap: anywhere; }
.notice.good { background: var(--good-ground); color: var(--good); }
.notice.bad { background: var(--bad-ground); color: var(--bad); }
.empty { color: var(--soft); margin: 0; }
/* A shadow at the side where a table goes on. */
.scroll { overflow-x: auto; background: linear-gradient(to right, var(--card) 30%, transparent) left / 40px 102% no-repeat local, linear-gradient(to left, var(--card) 30%, transparent) right / 40px 102% no-repeat local, linear-gradient(to right, var(--edge), transparent) left / 12px 100% no-repeat scroll, linear-gradient(to left, var(--edge), transparent) right / 12px 100% no-repeat scroll; }
.scroll + * { margin-top: 14px; }
.field.wide { margin-bottom: 12px; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-size: 13px; font-weight: 600; color: var(--soft); white-space: nowrap; }
th, td { padding: 7px 12px 7px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td .verdict { margin: 0; }
td { overflow-wrap: break-word; min-width: 5.5em; max-width: 26em; }
main p, main li, main dd { overflow-wrap: anywhere; }
.cards .card { min-width: 0; }
form.card:not(.row) > .field, form.card > label { display: flex; margin-bottom: 12px; }
form.card > label { gap: 6px; align-items: baseline; }
::placeholder { color: var(--soft); opacity: .85; }
code, .mono { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; }
td:has(> code, > a > code) { min-width: 9em; }
td > a > code { text-decoration: underline; }
.num { font-variant-numeric: tabular-nums; white-space: nowrap; }
.plus { color: var(--good); }
.tag { display: inline-block; text-decoration: none; font-size: 12px; padding: 1px 8px; border-radius: 99px; background: var(--rest); color: var(--ink); white-space: nowrap; }
.tag.active, .tag.granted, .tag.completed, .tag.delivered { background: var(--good-ground); color: var(--good); }
.tag.revoked, .tag.denied, .tag.withdrawn, .tag.failed { background: var(--bad-ground); color: var(--bad); }
.tag.expired, .tag.test { background: var(--test-ground); color: var(--test); }
.rules { display: inline-flex; flex-wrap: wrap; gap: 4px; }
.rules code { background: var(--rest); border-radius: 4px; padding: 0 6px; }
fieldset { border: 1px solid var(--line); border-radius: 8px; padding: 12px; margin: 0 0 12px; min-width: 0; }
legend { font-weight: 600; padding: 0 6px; }
.kinds { display: flex; flex-wrap: wrap; gap: 8px 20px; margin-bottom: 12px; }
.kinds label { color: var(--ink); font-size: 15px; }
form:has(input[name="kind"][value="items"]:checked) .legacy-only { display: none; }
form:has(input[name="kind"][value="legacy"]:checked) .items-only { display: none; }
.verdict { margin: 8px 0 0; font-size: 14px; }
.verdict.yes { color: var(--good); }
.verdict.no { color: var(--bad); }
.copy { display: flex; flex-wrap: wrap; align-items: end; gap: 8px; margin-bottom: 12px; }
.copy label { flex-basis: 100%; }
.copy input { flex: 1 1 260px; width: auto; font-family: ui-monospace, monospace; }
.chart { margin: 0; }
.chart figcaption { display: flex; justify-content: space-between; gap: 8px; }
.chart figcaption b { font-size: 20px; line-height: 1.2; }
.chart svg { display: block; width: 100%; height: auto; margin-top: 6px; fill: var(--bar); }
.chart.spent svg { fill: var(--bar-spent); }
.chart.warn svg { fill: var(--bar-warn); }
.chart line { stroke: var(--line); }
.chart.balance svg { height: 110px; }
.chart .line { vector-effect: non-scaling-stroke; }
.chart .area { opacity: .18; }
.chart .line { fill: none; stroke: var(--bar); stroke-width: 2; }
.axis { display: flex; justify-content: space-between; margin: 2px 0 0; color: var(--soft); font-size: 12px; }
.chart details { margin-top: 6px; font-size: 13px; color: var(--soft); }
.chart ul { margin: 4px 0 0; padding-left: 18px; }
.meter { width: 100%; height: 8px; display: block; margin: 6px 0; border-radius: 4px; }
.meter .all { fill: var(--rest); }
.meter .left { fill: var(--bar); }
.facts:not(:last-child) { margin-bottom: 14px !important; }
.facts { display: grid; grid-template-columns: fit-content(45%) minmax(0, 1fr); gap: 4px 16px; margin: 0; }
.facts dt { color: var(--soft); overflow-wrap: anywhere; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.signin { max-width: 420px; }
.signin .field { flex-basis: 100%; }
button + .notice { margin-top: 12px; }
@media print { .bar, .skip, form { display: none; } }
@media (max-width: 560px) { main { padding: 12px; } .bar { padding: 8px 12px; } .facts { grid-template-columns: 1fr; } .facts dd { margin-bottom: 6px; } }
`;
