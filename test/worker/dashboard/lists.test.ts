import { afterAll, expect, it } from "vitest";
import { readFirstRows } from "../../../src/dashboard/read-list.ts";
import { openDashboard } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { eventOf, session } from "../../support/stripe-events.ts";

afterAll(expectLedgerInvariants);

async function world() {
  const w = await paymentsWorld();
  const { read, send } = await openDashboard(w.app, w.clock);
  /** Returns the texts of a column of a page's table. */
  const column = async (path: string, label: string, index: number) => {
    const { text } = await read(path);
    const [, rows = ""] = new RegExp(`aria-label="${label}"[\\s\\S]*?<tbody>([\\s\\S]*?)</tbody>`).exec(text) ?? [];
    return [...rows.matchAll(/<tr>([\s\S]*?)<\/tr>/g)].map(
      ([, row = ""]) =>
        [...row.matchAll(/<td[^>]*>([\s\S]*?)<\/td>/g)][index]?.[1]?.replace(/<[^>]*>/g, "").trim() ?? "",
    );
  };
  const csv = async (path: string) => {
    const { status, headers, text } = await read(path);
    expect([status, headers.get("content-type")]).toEqual([200, "text/csv; charset=utf-8"]);
    expect(text.endsWith("\r\n")).toBe(true);
    return {
      name: headers.get("content-disposition"),
      lines: text
        .replace(/^\ufeff/, "")
        .trimEnd()
        .split("\r\n"),
    };
  };
  const grant = (userId: string, quantity: number) =>
    w.post("credits/grant", { userId, packId: w.packs.tokens, quantity });
  return { ...w, read, column, csv, send, grant };
}

it("a list that is longer than a page sorts all users, not only those of the page, and its file has the same order", async () => {
  const w = await world();
  const amounts = Array.from({ length: 60 }, (_, index) => ((index * 17) % 60) + 1);
  for (const [index, amount] of amounts.entries()) await w.grant(`u${index}`, amount);
  await w.grant("=1+1", 61);
  const userOf = (amount: number) => (amount === 61 ? "=1+1" : `u${amounts.indexOf(amount)}`);
  const down = Array.from({ length: 61 }, (_, index) => userOf(61 - index));
  const sorted = "users?sort=remaining&order=desc";
  expect(await w.column(sorted, "Users", 0)).toEqual(down.slice(0, 50));
  expect(await w.column(`${sorted}&page=2`, "Users", 0)).toEqual(down.slice(50));
  // A page number after the last page shows the last page.
  expect(await w.column(`${sorted}&page=9`, "Users", 0)).toEqual(down.slice(50));
  expect(await w.column("users?sort=remaining&order=asc", "Users", 0)).toEqual(down.toReversed().slice(0, 50));
  const { text } = await w.read(sorted);
  expect(text.match(/aria-sort="[a-z]+"/g)).toEqual(['aria-sort="descending"']);
  for (const part of [
    "sort=remaining&order=asc",
    "sort=remaining&order=desc&page=2",
    "users.csv?",
    "Sorted among all 61 rows.",
  ]) {
    expect(text).toContain(part);
  }
  const { name, lines } = await w.csv("users.csv?sort=remaining&order=asc");
  expect(name).toBe('attachment; filename="users.csv"');
  expect(lines[0]).toMatch(/^userId,.*tokens.*,balances,isPartial,lastEntryAt$/);
  expect(lines).toHaveLength(62);
  expect(lines[1]?.startsWith(`"${userOf(1)}",`)).toBe(true);
  // A spreadsheet must not read an id as a formula.
  expect(lines[61]?.startsWith(`"'=1+1",`)).toBe(true);
  const raw = await w.csv("users.csv?sort=remaining&order=asc&raw=true");
  expect(raw.lines[61]?.startsWith('"=1+1",')).toBe(true);
  expect((await w.csv("users.csv?q=u1")).lines).toHaveLength(12);
});

it("a list that is longer than a page sorts payments by amount, and its file has the amounts in the smallest unit of the currency", async () => {
  const w = await world();
  for (const [index, amount] of [1000, 3000, 2000].entries()) {
    const fields = { client_reference_id: "ada", metadata: { pack: "wallet" }, payment_intent: `pi_${index}` };
    const checkout = session(`cs_${index}`, { ...fields, amount_subtotal: amount, amount_total: amount });
    await w.deliver(eventOf("checkout.session.completed", w.nowS + index, checkout));
    w.clock.ms += 1_000;
  }
  expect(await w.column("payments", "Payments", 0)).toEqual(["pi_2", "pi_1", "pi_0"]);
  const by = (order: string) => w.column(`payments?sort=captured&order=${order}`, "Payments", 3);
  expect(await by("asc")).toEqual(["$10.00", "$20.00", "$30.00"]);
  expect(await by("desc")).toEqual(["$30.00", "$20.00", "$10.00"]);
  const { lines } = await w.csv("payments.csv?sort=captured&order=desc&userId=ada");
  expect(lines[0]).toBe("paymentKey,status,userId,currency,captured,refunded,withheld,createdAt");
  expect(lines.slice(1).map((line) => line.split(",").slice(0, 5).join(","))).toEqual([
    '"pi_1","granted","ada","usd",3000',
    '"pi_2","granted","ada","usd",2000',
    '"pi_0","granted","ada","usd",1000',
  ]);
  expect((await w.csv("payments.csv?userId=nobody")).lines).toHaveLength(1);
});

it("a list that is longer than a page sorts a ledger and its file, with its filters", async () => {
  const w = await world();
  await w.grant("ada", 2000);
  for (let spent = 1; spent <= 55; spent++) {
    const event = { userId: "ada", event: "chat", eventId: `e${spent}`, quantities: { tokens: spent } };
    expect((await w.post("usage/events", event)).status).toBe(200);
  }
  const newest = await w.column("users?userId=ada", "Ledger", 2);
  expect([newest.length, newest[0], newest[1]]).toEqual([50, "-55 tokens", "-54 tokens"]);
  const ascending = await w.column("users?userId=ada&sort=delta&order=desc", "Ledger", 2);
  expect(ascending.slice(0, 3)).toEqual(["+2,000 tokens", "-1 tokens", "-2 tokens"]);
  const rest = await w.column("users?userId=ada&sort=delta&order=desc&page=2", "Ledger", 2);
  expect([rest.length, rest.at(-1)]).toEqual([6, "-55 tokens"]);
  const { lines } = await w.csv("users/ledger.csv?userId=ada&reason=event_committed&sort=delta&order=asc");
  expect(lines).toHaveLength(56);
  expect(lines[0]).toBe("occurredAt,balanceId,packId,delta,unit,remaining,reason,cause,by,eventId,reservationId,note");
  expect(lines[1]).toContain(",-55,");
  expect((await w.csv("users/ledger.csv?userId=ada")).lines).toHaveLength(57);
});

it("a list that is longer than a page sorts the audit by action, and saves its details", async () => {
  const w = await world();
  for (const prices of ["", "price_1, two"]) {
    w.clock.ms += 60_000;
    expect((await w.send("payments/stripe", { currency: "eur", prices })).status).toBe(303);
  }
  const actions = await w.column("audit?sort=action&order=asc", "Actions", 2);
  expect(actions.length).toBeGreaterThan(1);
  expect(actions).toEqual(actions.toSorted());
  const { lines } = await w.csv("audit.csv?sort=action&order=desc");
  expect(lines[0]).toBe("at,by,action,target,userId,reason,details");
  const named = actions.toReversed().map((text) => text.toLowerCase().replace(" ", "."));
  expect(lines.slice(1).map((line) => line.split('","')[2])).toEqual(named);
  const times = async (order: string) =>
    (await w.csv(`audit.csv?action=stripe.set&sort=at&order=${order}`)).lines
      .slice(1)
      .map((line) => line.split(",")[0]);
  const ascending = await times("asc");
  expect(ascending.length).toBeGreaterThan(1);
  expect(ascending).toEqual(ascending.toSorted());
  expect(await times("desc")).toEqual(ascending.toReversed());
  // The list's own order is newest first.
  const unsorted = (await w.csv("audit.csv?action=stripe.set")).lines.slice(1).map((line) => line.split(",")[0]);
  expect(unsorted).toEqual(ascending.toReversed());
});

it("a list that is longer than a page rejects an unknown order, and names the known ones", async () => {
  const w = await world();
  for (const [path, part] of [
    ["users?sort=name", "must be one of userId, remaining, balances, lastEntryAt"],
    ["users?sort=isPartial", "must be one of"],
    ["users.csv?sort=name", "must be one of"],
    ["payments?sort=captured&order=up", "must be asc or desc"],
    ["audit?sort=at&page=0", "must be the number of a page"],
  ] as const) {
    const { status, text } = await w.read(path);
    expect([path, status, text.includes(part)]).toEqual([path, 400, true]);
  }
});

it("a sorted list reads its first 10,000 rows, and reports whether others follow", async () => {
  let trips = 0;
  const pages = (count: number) => async (page: { limit: number; cursor: string | undefined }) => {
    trips++;
    const number = Number(page.cursor ?? "0");
    const rows = Array.from({ length: page.limit }, (_, index) => number * page.limit + index);
    return { rows, nextCursor: number + 1 === count ? null : `${number + 1}` };
  };
  const all = await readFirstRows(pages(20));
  expect([all.rows.length, all.rows.at(-1), all.isTruncated, trips]).toEqual([10_000, 9_999, false, 20]);
  const list = await readFirstRows(pages(21));
  expect([list.rows.length, list.isTruncated, trips]).toEqual([10_000, true, 40]);
});
