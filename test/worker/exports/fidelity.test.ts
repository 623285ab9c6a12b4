import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { documentOf, linkTo, open } from "../../support/exports.ts";
import { send } from "../../support/people.ts";
import { seedAnalytics, seedPerson } from "../../support/seed-rows.ts";
import { Clock, makeApp, makeClient } from "../../support/world.ts";

const deep = (levels: number): string => `${'{"a":'.repeat(levels)}null${"}".repeat(levels)}`;

/** JSON texts whose values are easily lost. */
const TEXTS: readonly string[] = [
  '{"__proto__":{"polluted":true},"constructor":{"prototype":1},"toString":"x"}',
  '{"line":"\u2028","paragraph":"\u2029","emoji":"👩‍🚀🦊","quote":"\\"","backslash":"\\\\","controls":"\\u0000\\u0001\\n\\u001f\u007f"}',
  '{"":"empty key","a":{"":{"":[]}}}',
  '{"two53":9007199254740992,"below":9007199254740991,"small":5e-324,"large":1.7976931348623157e308,"minus":-0.1}',
  '{"é":"é","e\u0301":"e\u0301"}',
  '{"list":[null,true,false,0,"",{},[]],"nested":[[[[]]]]}',
  '{"</script>":"<!--","html":"&amp;"}',
  deep(1_500),
];

it("an export returns the JSON values that were stored, even unusual ones", async () => {
  const clock = new Clock();
  const app = await makeApp();
  await seedPerson(app.environments.live, { properties: TEXTS[0] ?? "" }, ["Zoë", "Zoe\u0308"]);
  await seedAnalytics(app.environments.live, "Zoë", TEXTS);
  const text = await (await open(await linkTo(app, "Zoë", clock), clock)).text();
  for (const stored of TEXTS) expect(text).toContain(`"properties":${stored}`);
  const { person, events } = await documentOf(app, "Zoë", clock);
  expect(events.analytics.map(({ properties }) => JSON.stringify(properties))).toEqual(
    TEXTS.map((stored) => JSON.stringify(JSON.parse(stored))),
  );
  expect(Object.hasOwn(person?.properties ?? {}, "__proto__")).toBe(true);
  expect(person?.distinctIds.map(({ distinctId }) => distinctId)).toEqual(["Zoë", "Zoe\u0308"]);
});

it("an export returns properties of several ids with all digits, each name from the nearest id that has it", async () => {
  const clock = new Clock();
  const app = await makeApp();
  await seedPerson(app.environments.live, { properties: '{"n":9007199254740993,"__proto__":1}' }, ["ana", "crm"]);
  const claimed = '{"n":1,"__proto__":{"a":1},"huge":1e400,"1":"one","constructor":-0.0}';
  await env.DB.prepare(
    "INSERT INTO id_properties (environment_id, distinct_id, properties) VALUES (CAST(? AS INTEGER), ?, ?)",
  )
    .bind(app.environments.live.id, "crm", claimed)
    .run();
  const text = await (await open(await linkTo(app, "ana", clock), clock)).text();
  expect(text).toContain('"properties":{"n":9007199254740993,"__proto__":1,"1":"one","huge":1e400,"constructor":-0.0}');
});

it("an export returns the fields of captured events unchanged", async () => {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  const properties = TEXTS.slice(0, 7).map((text): unknown => JSON.parse(text));
  const name = 'a "quoted" \\ name 🦊 \u2028';
  await send(
    call,
    app.keys.pk_live,
    properties.map((value) => ({ event: name, distinct_id: name, properties: value })),
  );
  const { events, distinctId } = await documentOf(app, name, clock);
  expect(distinctId).toBe(name);
  expect(events.analytics.map((event) => JSON.stringify(event.properties))).toEqual(
    properties.map((value) => JSON.stringify(value)),
  );
  for (const event of events.analytics) {
    expect(event).toMatchObject({ event: name, distinctId: name, receivedAt: new Date(clock.ms).toISOString() });
  }
});

it("an export distinguishes ids that only normalisation makes equal", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const ids = ["Zo\u00eb", "Zoe\u0308"];
  for (const id of ids) await seedPerson(app.environments.live, { properties: JSON.stringify({ id }) }, [id]);
  const people = await Promise.all(ids.map(async (id) => (await documentOf(app, id, clock)).person));
  expect(people.map((person) => person?.properties.id)).toEqual(ids);
  expect(new Set(people.map((person) => person?.personId)).size).toBe(2);
});

it("an export returns events that are each too large for a page, in order", async () => {
  const clock = new Clock();
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["heavy"]);
  const weights = [10, 900_000, 10, 10, 5_000, 1_000_000, 4_000, 1_000_000, 20, 300_000, 10];
  const texts = Array.from({ length: 5 }, () => weights).flat();
  await seedAnalytics(
    app.environments.live,
    "heavy",
    texts.map((weight, index) => JSON.stringify({ index, text: "é".repeat(weight / 2) })),
  );
  const { events } = await documentOf(app, "heavy", clock);
  expect(events.analytics.map(({ properties }) => [properties.index, `${properties.text}`.length])).toEqual(
    texts.map((weight, index) => [index, weight / 2]),
  );
});
