import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { openDashboard, tableRows } from "../../support/browse.ts";
import { sumDaysOf } from "../../support/cron.ts";
import { makePricedSpender } from "../../support/metered.ts";
import { makeAdminCtx } from "../../support/world.ts";

const DAY_MS = 86_400_000;
const RULES = [
  { model: "gpt-5", unit: "cents", per: { input: { amount: 125, units: 1_000_000 }, output: 0.001 } },
  { event: "image", when: { meters: ["images", "previews"], above: 2 }, unit: "count", perEvent: 4 },
];

async function pricesPages() {
  const w = await makePricedSpender([{ amountMinor: 8_000_000_000, unit: "cents" }]);
  const pages = await openDashboard(w.app, w.clock);
  const stored = async () => {
    const { results } = await env.DB.prepare(
      "SELECT version, rules, costs, note, effective_at_ms AS at FROM price_lists WHERE environment_id = ? AND is_deleted = 0 ORDER BY version",
    )
      .bind(w.app.environments.live.id)
      .all<{ version: number; rules: string; costs: string; note: string | null; at: number }>();
    return results.map(({ rules, costs, ...row }) => ({ ...row, rules: JSON.parse(rules), costs: JSON.parse(costs) }));
  };
  const post = async (path: string, fields: Record<string, string>) => {
    const answer = await pages.send(path, fields);
    const html = await answer.text();
    return { status: answer.status, html, location: answer.headers.get("location") };
  };
  /** The fields of the form in a page that leads to a path, as a browser would send them. */
  const fieldsOf = (html: string, action: string) => {
    const [form = ""] = (html.split(`action="${pages.at}/${action}"`)[1] ?? "").split("</form>");
    const value = (tag: string, name: string) =>
      (new RegExp(`${name}="([^"]*)"`).exec(tag)?.[1] ?? "").replaceAll("&quot;", '"').replaceAll("&amp;", "&");
    const inputs = [...form.matchAll(/<input[^>]*>/g)].map(([tag]) => [value(tag, "name"), value(tag, "value")]);
    const selects = [...form.matchAll(/<select[^>]*name="([^"]*)".*?<option value="([^"]*)" selected/gs)];
    const fields = Object.fromEntries([...inputs, ...selects.map(([, name = "", chosen]) => [name, chosen])]);
    const { _form: _, sure: __, ...rest } = fields as Record<string, string>;
    return rest;
  };
  return { ...w, ...pages, stored, post, fieldsOf };
}

it("the editor of the price list makes a version of the rows after a review, once, in the order of their numbers", async () => {
  const w = await pricesPages();
  await w.setPrices(RULES, { costs: [{ per: { input: 0.5 } }], note: "First" });
  const opened = await w.read("prices/edit");
  const fields = w.fieldsOf(opened.text, "prices/review");
  expect(fields).toMatchObject({
    ...{ "rules.0.model": "gpt-5", "rules.0.per": "input 125 for 1000000, output 0.001", "rules.0.unit": "cents" },
    ...{ "rules.1.when": "images + previews above 2", "rules.1.perEvent": "4", "costs.0.per": "input 0.5" },
    ...{ "rules.2.model": "", ifVersion: "1" },
  });
  // The image's price comes first; the model's input is dearer; a row is new, another is emptied.
  const edited = {
    ...fields,
    ...{ "rules.0.per": "input 130 / 1,000,000, output: 0.001", "rules.1.place": "0.5" },
    ...{ "rules.2.event": "search", "rules.2.perEvent": "1", "costs.0.per": "", note: "Second" },
  };
  const review = await w.post("prices/review", edited);
  expect(review.status).toBe(200);
  expect(tableRows(review.html, "Changed rules")).toEqual([
    "moved 2 1 image all images + previews above 2 count the same prices",
    "changed 1 2 all gpt-5 cents input: 125 for 1000000 → 130 for 1000000 (+4 %)",
    "added 3 search all cents 1 an event, any meters",
  ]);
  expect(tableRows(review.html, "Changed costs")).toEqual(["removed 1 all all cents input 0.5"]);
  expect(await w.stored()).toHaveLength(1);
  const confirmed = w.fieldsOf(review.html, "prices");
  for (let times = 0; times < 2; times++) {
    const made = await w.post("prices", confirmed);
    expect([made.status, made.location]).toEqual([303, `${w.at}/prices/2?notice=made`]);
  }
  const [, second] = await w.stored();
  expect(second).toMatchObject({ version: 2, note: "Second", costs: [], at: w.clock.ms });
  expect(second?.rules).toEqual([
    RULES[1],
    { ...RULES[0], per: { input: { amount: 130, units: 1_000_000 }, output: 0.001 } },
    { event: "search", unit: "cents", perEvent: 1 },
  ]);
  expect((await w.read("prices/2?notice=made")).text).toContain("The version is made.");
});

it("the editor of the price list shows each row's error beside it, keeps what was typed, and writes nothing", async () => {
  const w = await pricesPages();
  const answer = await w.post("prices/review", {
    ...{ ifVersion: "0", "rules.0.unit": "cents", "rules.0.per": "input 1e-13" },
    ...{ "rules.1.unit": "cents", "rules.1.event": "chat" },
    ...{ "rules.2.unit": "euro", "rules.2.perEvent": "1", "rules.3.unit": "cents", "rules.3.perEvent": "1,5" },
    ...{ "rules.4.unit": "cents", "rules.4.per": "input", "rules.5.unit": "cents", "rules.5.when": "above 3" },
    ...{ "rules.6.unit": "cents", "rules.6.per": "In 3", "costs.0.perEvent": "-1", effectiveAt: "2020-01-01T00:00" },
  });
  expect(answer.status).toBe(400);
  const errors = [...answer.html.matchAll(/class="field-error"[^>]*>(.*?)<\/span>/gs)].map(([, text = ""]) =>
    text.replaceAll(/<[^>]+>/g, "").replaceAll("&#39;", "'"),
  );
  expect(errors).toEqual([
    expect.stringContaining("must be 0 or more, with at most 12 decimals"),
    expect.stringContaining("This rule must have perEvent, per or both"),
    expect.stringContaining("Unit of no. 3"),
    expect.stringContaining("must be a number such as 1,000"),
    expect.stringContaining("must be names and prices"),
    expect.stringContaining("must be meters and a number"),
    expect.stringContaining("must begin with a small letter"),
    expect.stringContaining("must be 0 or more"),
  ]);
  expect(answer.html).toContain('value="input 1e-13"');
  expect(await w.stored()).toEqual([]);
});

it("the editor of the price list has more empty rows on demand, and lets who reviews go back with all that was typed", async () => {
  const w = await pricesPages();
  const typed = { ifVersion: "0", "rules.0.unit": "cents", "rules.0.perEvent": "2", note: "x" };
  const more = await w.post("prices/review", { ...typed, more: "yes", blank: "13" });
  expect([
    more.status,
    more.html.includes('name="rules.13.event"'),
    more.html.includes('name="rules.14.event"'),
  ]).toEqual([200, true, false]);
  const review = await w.post("prices/review", { ...typed, effectiveAt: "2026-02-01T00:00:00" });
  expect(review.html).toContain("Schedule this version");
  const back = await w.post("prices/edit", w.fieldsOf(review.html, "prices/edit"));
  expect(w.fieldsOf(back.html, "prices/review")).toMatchObject({
    ...{ "rules.0.perEvent": "2", note: "x", effectiveAt: "2026-02-01T00:00:00", ifVersion: "0" },
  });
});

it("the editor of the price list schedules a version, which the page of the version deletes before its time", async () => {
  const w = await pricesPages();
  await w.setPrices(RULES);
  const typed = { ifVersion: "1", "rules.0.unit": "cents", "rules.0.perEvent": "2" };
  const review = await w.post("prices/review", { ...typed, effectiveAt: "2026-02-01T00:00:00" });
  expect((await w.post("prices", w.fieldsOf(review.html, "prices"))).status).toBe(303);
  expect((await w.stored()).map(({ at }) => at)).toEqual([w.clock.ms, Date.parse("2026-02-01T00:00:00Z")]);
  expect((await w.read("prices/2")).text).toContain("prices/2/delete");
  expect((await w.read("prices/2/delete")).text).toContain("never takes force");
  expect((await w.post("prices/2/delete", {})).location).toBe(`${w.at}/prices?notice=deleted`);
  expect(await w.stored()).toHaveLength(1);
  const again = await w.post("prices/1/delete", {});
  expect([again.status, again.html.includes("has already taken force")]).toEqual([400, true]);
});

it("the editor of the price list does not replace a version that somebody else made since it was opened, and asks about rules without effect", async () => {
  const w = await pricesPages();
  const typed = { ifVersion: "0", "rules.0.unit": "cents", "rules.0.perEvent": "2", "rules.1.unit": "cents" };
  const review = await w.post("prices/review", { ...typed, "rules.1.perEvent": "3" });
  expect(review.html).toContain("Rule 2 can never apply: rule 1 covers it.");
  const fields = w.fieldsOf(review.html, "prices");
  const unsure = await w.post("prices", fields);
  expect([unsure.status, unsure.html.includes("tick the box")]).toEqual([400, true]);
  await w.setPrices(RULES);
  const late = await w.post("prices", { ...fields, sure: "yes" });
  expect([late.status, late.html.includes("was changed after")]).toEqual([409, true]);
  expect(await w.stored()).toHaveLength(1);
});

it("the comparison of versions shows what changed, rule by rule, and by default the two newest", async () => {
  const w = await pricesPages();
  await w.setPrices(RULES);
  await w.setPrices([{ ...RULES[0], per: { input: { amount: 100, units: 1_000_000 } } }]);
  const rows = [
    "changed 1 1 all gpt-5 cents input: 125 for 1000000 → 100 for 1000000 (−20 %), output: 0.001 → none",
    "removed 2 image all images + previews above 2 count 4 an event, any meters",
  ];
  expect(tableRows((await w.read("prices/compare")).text, "Changed rules")).toEqual(rows);
  expect(tableRows((await w.read("prices/compare?from=1&to=2")).text, "Changed rules")).toEqual(rows);
  expect((await w.read("prices/compare?from=2&to=2")).text).toContain("No rule differs.");
  await w.setPrices([{ ...RULES[0], per: { input: { amount: 100.01, units: 1_000_000 } } }]);
  expect((await w.read("prices/compare")).text).toContain("100 for 1000000 → 100.01 for 1000000 (+under 0.1 %)");
  await w.setPrices([{ ...RULES[0], per: { input: { amount: 2, units: 1 } } }]);
  await w.setPrices([{ ...RULES[0], per: { input: 2 } }]);
  expect((await w.read("prices/compare")).text).toContain("input: 2 for 1 → 2<");
  expect((await w.read("prices/compare?from=9&to=2")).status).toBe(404);
  expect((await w.read("prices/compare?to=1")).text).toMatch(/<option value="0" selected[^>]*>no list</);
});

it("a review tells what the list would have charged the last week's events, and which have no price in it", async () => {
  const w = await pricesPages();
  await w.setPrices([{ unit: "cents", per: { input: 0.001, output: 0.002 } }]);
  const use = (id: string, meters: object, more: object = {}) =>
    w.spend(id, { event: "chat", model: "m", meters, ...more });
  // 1 + 2 = 3 cents; by the new list 1.12 + 2.24 = 3.36. Others are too old, sent quantities, or have no price.
  await use("e1", { input: 1_000 });
  await use("e2", { output: 1_000 });
  await use("old", { output: 1_000 }, { occurredAt: new Date(w.clock.ms - 8 * DAY_MS).toISOString() });
  await use("new", { output: 1_000 }, { model: "other" });
  await w.spend("plain", { event: "chat", quantities: { cents: 5 } });
  await sumDaysOf(makeAdminCtx(w.clock), w.app.environments.live);
  const list = {
    ifVersion: "1",
    "rules.0.unit": "cents",
    "rules.0.model": "m",
    "rules.0.per": "input 0.00112, output 0.00224",
  };
  const { html } = await w.post("prices/review", list);
  const text = html.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
  expect(text).toContain("This list would have charged 12 % more : 3.36 cents instead of 3");
  expect(text).toContain("Events that have no price in this list, and will be rejected: 1.");
  expect(text).toContain("chat , model other, output: 1");
  expect(tableRows(html, "By model")).toEqual(["m cents 2 3 3.36 12 % more"]);
  expect(text).toContain("2 events with meters");
});

it("a review compares amounts with more digits than a double", async () => {
  const w = await pricesPages();
  await w.setPrices([{ unit: "cents", per: { input: 1.000001 } }]);
  const usage = { event: "chat", meters: { input: 8_000_000_000.001 }, onShortage: "partial" };
  for (const id of ["e1", "e2", "e3"]) await w.spend(id, usage);
  await sumDaysOf(makeAdminCtx(w.clock), w.app.environments.live);
  const review = async (per: string) =>
    tableRows(
      (await w.post("prices/review", { ifVersion: "1", "rules.0.unit": "cents", "rules.0.per": per })).html,
      "By model",
    );
  const before = "none cents 3 24,000,024,000.003003";
  expect(await review("input 1.000001")).toEqual([`${before} 24,000,024,000.003003 the same`]);
  expect(await review("input 1.010001")).toEqual([`${before} 24,240,024,000.003033 1 % more`]);
});

it("a review lists the models with the most events first, then by name, whatever the order of the events", async () => {
  const w = await pricesPages();
  await w.setPrices([{ unit: "cents", per: { input: 0.001 } }]);
  for (const [index, model] of ["z", "b", "a", "b"].entries())
    await w.spend(`e${index}`, { event: "chat", model, meters: { input: 1_000 } });
  await sumDaysOf(makeAdminCtx(w.clock), w.app.environments.live);
  const { html } = await w.post("prices/review", {
    ...{ ifVersion: "1", "rules.0.unit": "cents", "rules.0.per": "input 0.002" },
  });
  expect(tableRows(html, "By model").map((row) => row[0])).toEqual(["b", "a", "z"]);
});

it.each([
  // 1,000 of input and 1,000 of output cost 3 cents before.
  ["input 0.001, output 0.0017693", "7.7 % less: 2.7693 cents instead of 3."],
  ["input 0.001, output 0.0022307", "7.7 % more: 3.2307 cents instead of 3."],
  ["input 0.001, output 0.0020004", "under 0.1 % more: 3.0004 cents instead of 3."],
  ["input 0.001, output 0.002", "the same: 3 cents."],
])("a review rounds the change to tenths of a percent: %s", async (per, told) => {
  const w = await pricesPages();
  await w.setPrices([{ unit: "cents", per: { input: 0.001, output: 0.002 } }]);
  await w.spend("e1", { event: "chat", meters: { input: 1_000, output: 1_000 } });
  await sumDaysOf(makeAdminCtx(w.clock), w.app.environments.live);
  const { html } = await w.post("prices/review", { ifVersion: "1", "rules.0.unit": "cents", "rules.0.per": per });
  const text = html
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ")
    .replaceAll(" :", ":")
    .replaceAll(" .", ".");
  expect(text).toContain(`would have charged ${told}`);
});
