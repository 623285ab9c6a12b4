import { expect, it } from "vitest";
import { browse } from "../../support/browse.ts";
import { makePricedSpender } from "../../support/metered.ts";

const RULES = [
  { model: "gpt-5", unit: "cents", per: { input: { amount: 125, units: 1_000_000 }, output: 0.001 } },
  { event: "image", when: { meters: ["images"], above: 2 }, unit: "count", perEvent: 4 },
];

it("the pages of prices show the versions, their rules, the price of a usage, and an event's meters, version and cost", async () => {
  const w = await makePricedSpender();
  const browser = browse(w.clock);
  await browser.signIn();
  const at = `/admin/apps/${w.app.appId}/live`;
  const read = async (path: string) => {
    const answer = await browser.get(`${at}/${path}`);
    return { status: answer.status, text: (await answer.text()).replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ") };
  };
  expect((await read("prices")).text).toContain("No price list");
  await w.setPrices(RULES, { note: "First", costs: [{ model: "gpt-5", per: { input: 0.0001, output: 0 } }] });
  await w.setPrices([], { effectiveAt: new Date(w.clock.ms + 1_000).toISOString() });
  const list = await read("prices");
  expect(list.status).toBe(200);
  expect(list.text).toMatch(/2 scheduled .* 0 1 in force .* 2 First/);
  const version = (await read("prices/1")).text;
  expect(version).toContain("input 125 for 1000000, output 0.001");
  expect(version).toContain("images above 2");
  expect((await read("prices/3")).status).toBe(404);
  const asked = await read("prices?event=chat&model=gpt-5&meters=input+1000000%2C+output+2");
  expect(asked.text).toContain("125.002 cents, by version 1, rule 1 (cents)");
  expect((await read("prices?event=chat&model=new&meters=input+1")).status).toBe(404);
  expect((await read("prices?event=chat&model=gpt-5&meters=input")).status).toBe(400);
  const event = { event: "chat", model: "gpt-5", meters: { input: 1_000, output: 1 } };
  expect((await w.spend("e1", event)).status).toBe(200);
  const shown = (await read("users/event?eventId=e1")).text;
  expect(shown).toMatch(/Meters 1,000 input, 1 output Priced by version 1 Your own cost 0\.1 cents/);
});
