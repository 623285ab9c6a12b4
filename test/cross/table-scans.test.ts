import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { systemCtx } from "../../src/auth/system-ctx.ts";
import { scheduled } from "../../src/cron.ts";
import { randomId } from "../../src/lib/ids.ts";
import { browse } from "../support/browse.ts";
import { runPart } from "../support/cron.ts";
import { operations } from "../support/operations.ts";
import { planReader, type Reading, recordingDatabases } from "../support/query-plans.ts";
import { bound, Clock, inTurn, makeApp, makeClient, makePack } from "../support/world.ts";

/** Tables in which a tenant always has few rows. Any other table may have many rows. */
const FEW: ReadonlySet<string> = new Set([
  ...["environments", "alerts", "webhook_endpoints", "expiry_notices"],
  // An administrator creates these rows by hand.
  ...["apps", "credit_packs", "admin_keys"],
  // A row for each of the last walks of the deployment's figures.
  "business_walks",
]);

interface AllowedScan {
  /** SQLite's line of the plan, and a part of the statement's text. */
  readonly detail: string;
  readonly text: string;
  readonly why: string;
}

/** Scans that are intended. */
const ALLOWED_SCANS: readonly AllowedScan[] = [
  {
    detail: "SEARCH members USING INDEX members_erasing (environment_id=?)",
    text: "INDEXED BY members_erasing",
    why: "The members whose usage is being erased: the partial index contains no others.",
  },
  {
    detail: "SEARCH members USING COVERING INDEX members_erasing (environment_id=?)",
    text: 'update "erasure_ids" set "is_done" = 1',
    why: "Whether a member's usage is still to be erased: the same partial index.",
  },
  {
    detail: "SEARCH price_lists USING INDEX sqlite_autoindex_price_lists_1 (environment_id=?)",
    text: 'order by "price_lists"."version" desc limit 1',
    why: "The newest version of the environment's price list that is not deleted.",
  },
  {
    detail: "SEARCH price_lists USING COVERING INDEX sqlite_autoindex_price_lists_1 (environment_id=?)",
    text: 'order by "price_lists"."version" desc limit 1',
    why: "The number of the newest version: one row.",
  },
  ...[
    "SEARCH price_lists USING INDEX sqlite_autoindex_price_lists_1 (environment_id=?)",
    "SEARCH price_lists USING COVERING INDEX price_lists_effective (environment_id=?)",
  ].map((detail) => ({
    detail,
    text: '\'deleted\', sum("price_lists"."is_deleted")',
    why: "The counts of an environment's versions, at most 10,000, when an administrator sets or deletes one.",
  })),
  {
    detail: "SCAN statements USING INDEX statements_running",
    text: '"statements" INDEXED BY statements_running',
    why: "The monthly statements that are being made: the partial index contains no others.",
  },
  {
    detail: "SEARCH statements USING PRIMARY KEY (environment_id=?)",
    text: 'order by "statements"."month" desc',
    why: "The list of an environment's monthly statements: at most one a month.",
  },
  {
    detail: "SEARCH usage_limits USING COVERING INDEX usage_limits_name_key (environment_id=?)",
    text: '"usage_limits"',
    why: "The number of the environment's limits, at most 20, when one is created.",
  },
  {
    detail: "SEARCH usage_limits USING PRIMARY KEY (environment_id=?)",
    text: '"usage_limits"',
    why: "All usage limits of the environment, at most 20.",
  },
  {
    detail: "SEARCH usage_days USING PRIMARY KEY (environment_id=?)",
    text: 'exists (select 1 from "usage_days"',
    why: "Whether the environment has any day sum: one row.",
  },
  {
    detail: "SEARCH usage_to_sum USING PRIMARY KEY (environment_id=?)",
    text: 'SELECT min("usage_to_sum"."received_at_ms")',
    why: "The oldest of the environment's marks, which users with new usage have. An index would cost each event one row.",
  },
  {
    detail: "SEARCH accounts USING INDEX accounts_user (environment_id=?)",
    text: '"accounts"."recurring_due_at_ms" <= ?) order by "accounts"."recurring_due_at_ms"',
    why: "The next period of an environment with a test clock. Each step of the clock reads the users, as for holds.",
  },
  {
    detail: "SEARCH admin_audit USING PRIMARY KEY (app_id=?)",
    text: 'from "admin_audit" where "admin_audit"."app_id" = ? order by "admin_audit"."seq" desc limit',
    why: "The newest entries of an application's audit, one page.",
  },
  {
    detail: "SCAN reservations USING COVERING INDEX reservations_open",
    text: 'SELECT DISTINCT "reservations"."account_id" FROM "reservations" INDEXED BY reservations_open',
    why: "The cron looks for users with due holds. The index contains only open holds.",
  },
  {
    detail: "SCAN erasures USING INDEX erasures_running",
    text: '"erasures" INDEXED BY erasures_running',
    why: "The cron continues each erasure that has not ended. The index contains no others.",
  },
  {
    detail: "SEARCH payments USING INDEX payments_created (environment_id=?)",
    text: 'sum("payments"."captured")',
    why: "The sums of all payments that match the filters, only on the list's first page.",
  },
  {
    detail: "SEARCH cron_faults USING INDEX cron_faults_environment (environment_id=?)",
    text: 'select count(*) as "count" from (select "cron_faults"."failed_at_ms"',
    why: "The overview counts at most 101 pieces of work that failed.",
  },
  {
    detail: "SCAN stripe_settings",
    text: 'delete from "stripe_log"',
    why: "The cron deletes old events: it reads one row of each environment with a Stripe setting, and the old rows of its log.",
  },
  {
    detail: "SEARCH accounts USING INDEX accounts_user (environment_id=?)",
    text: 'from "accounts" cross join "reservations" INDEXED BY reservations_open',
    why: "The next hold when a test clock moves, only in test mode. An index by time would cost every hold one row.",
  },
  ...[
    { detail: "SEARCH accounts USING INDEX accounts_user (environment_id=?)", text: 'sum("accounts"."is_erased" = 0)' },
    {
      detail: "SEARCH accounts USING COVERING INDEX accounts_user (environment_id=?)",
      text: 'FROM (select "accounts"."id" as "id" from "accounts"',
    },
  ].map((plan) => ({ ...plan, why: "The overview reads at most 301 users." })),
  ...["accounts USING COVERING INDEX accounts_user", "api_keys USING INDEX api_keys_created"].map((of) => ({
    detail: `SEARCH ${of} (environment_id=?)`,
    text: 'INSERT INTO "environments"',
    why: "A step of a foreign key, which SQLite takes only in a batch that violates one.",
  })),
];

const READS = [
  "credits?userId=$&includeExpired=true",
  "credits?userId=$&externalRef=order-1",
  "credits?userId=$&asOf=2026-01-01T00:00:00Z",
  "credits?userId=$&externalRef=order-1&asOf=2026-01-01T00:00:00Z",
  "credits/history?userId=$",
  "credits/users",
  "credits/verify?userId=$",
  "usage?userId=$",
  "usage/reservations/res_$",
  "usage/reservations?userId=$",
  "usage/reservations?userId=$&status=open",
];
const ADMIN_READS =
  "keys packs audit webhooks alerts payments stripe/events expiry-notices end-user-auth clock limits".split(" ");
const FIGURES = "granted spent refunded expired expiring minted opened".split(" ");
const PAGES = [
  ..."overview packs keys alerts webhooks limits clock payments payments?userId=u payments?externalRef=x stripe-events verify audit audit?by=x audit?target=x".split(
    " ",
  ),
  ...FIGURES.map((figure) => `figures?figure=${figure}&from=2020-01-01&to=2030-01-01`),
  "rejections?kind=shortage",
  ..."users users?by=id users?q=u people people?by=id people?q=u".split(" "),
  "users?userId=$",
  "users?userId=$&event=chat.x&tokens=5",
  "users?userId=$&reason=reservation_held",
  "users/balances?userId=$",
  "users/balances?userId=$&reference=order-1",
  "users/as-of?userId=$&asOf=2025-01-01T00:00",
  "users/grant?userId=$",
  "users/verify?userId=$",
  "users/notes/delete?userId=$&noteId=note_1",
  "users/refund/confirm?userId=$&externalRef=order-1&reason=r",
  "usage?from=2026-01-01&to=2026-01-31",
  "statements",
  "recurring",
  "recurring?state=suspended",
  "usage-limits/reached",
  "people/erasures",
  "figures?figure=money",
  "search?q=zoe@example.com",
  "users/ledger.csv?userId=$",
  ..."users.csv users.csv?by=id users?sort=remaining payments.csv payments?sort=captured audit.csv audit?sort=by".split(
    " ",
  ),
  "users?userId=$&sort=delta",
  "users/event?eventId=$-event",
  "users/reservation?reservationId=res_$",
  "users/reservation/release?reservationId=res_$",
  "people?distinctId=$",
  "people/erase?distinctId=$",
];

/** Runs everything that Purser does, and returns the text of each statement that it sends to either database. */
async function textsOfAllStatements(): Promise<ReadonlySet<string>> {
  const app = await makeApp();
  await makePack(app.appId, "Two", [
    { amountMinor: 400_000, unit: "tokens", matches: [{ event: "chat.*" }] },
    { amountMinor: 5_000_000, unit: "cents" },
  ]);
  const { databases, texts } = recordingDatabases();
  const clock = new Clock();
  const call = makeClient(clock, { ...databases, TEST_BALANCE_QUOTA: "100000" }, randomId, inTurn(2));
  const read = async (path: string, key: string) => expect((await call("GET", path, { key })).status, path).toBe(200);
  const ofApp = `/api/v1/admin/apps/${app.appId}`;
  const admin = async (method: string, path: string, body: object) =>
    expect((await call(method, `${ofApp}/${path}`, { key: env.ADMIN_TOKEN, body })).status, path).toBe(200);
  await admin("POST", "webhooks", { mode: "test", url: "https://example.com/hook", types: ["*", "usage.recorded"] });
  await admin("POST", "alerts", { mode: "test", name: "Low", unit: "tokens", below: { amount: 300 } });
  await admin("PUT", "expiry-notices", { mode: "test", days: [7] });
  const identified = {
    event: "$identify",
    distinct_id: "ana",
    properties: { $anon_distinct_id: "0194685f-8a3c-7d11-9f2b-000000000001", $set: { a: 1 } },
  };
  for (const key of [app.keys.pk_test, app.keys.sk_test])
    await call("POST", "/batch/", {
      body: { api_key: key, batch: [identified, { event: "seen", distinct_id: "ana" }] },
    });

  for (const operation of operations) {
    const run = await operation.prepare({
      userId: randomId("u_"),
      clock,
      send: (method, path, body, key = app.keys.sk_test, headers = {}) =>
        call(method, path, { key, headers, ...(body === undefined ? {} : { body }) }),
      appId: app.appId,
      publishableKey: app.keys.pk_test,
      cron: async ({ work }) => {
        await runPart(work, systemCtx(bound(databases), { isolate: {}, now: clock.now, newId: randomId }));
      },
    });
    await run();
    await run();
  }
  const userId = randomId("u_");
  const post = async (path: string, body: object) =>
    expect((await call("POST", `/api/v1/${path}`, { key: app.keys.sk_test, body })).status, path).toBe(200);
  await post("credits/grant", { userId, packId: "Two", externalRef: "order-1" });
  await post("usage/events", { eventId: `${userId}-event`, userId, event: "chat.e", quantities: { tokens: 1 } });
  await post("usage/reservations", {
    reservationId: `res_${userId}`,
    userId,
    event: "chat.e",
    quantities: { tokens: 1 },
  });
  for (const path of READS) await read(`/api/v1/${path.replace("$", userId)}`, app.keys.sk_test);
  for (const by of ["day", "event", "model", "user"]) {
    await read(
      `${ofApp}/usage?mode=test&from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z&groupBy=${by}`,
      env.ADMIN_TOKEN,
    );
  }
  const answer = await call("POST", "/api/v1/admin/keys", {
    key: env.ADMIN_TOKEN,
    body: { name: "Reads", scopes: ["read"] },
  });
  await read("/api/v1/admin/apps", answer.body.key);
  await call("DELETE", `/api/v1/admin/keys/${answer.body.adminKeyId}`, { key: env.ADMIN_TOKEN });
  for (const path of ["keys", "audit"]) await read(`/api/v1/admin/${path}`, env.ADMIN_TOKEN);
  for (const path of ADMIN_READS) await read(`${ofApp}/${path}?mode=test&userId=u`, env.ADMIN_TOKEN);
  const browser = browse(clock, databases);
  await browser.signIn();
  const ofTest = PAGES.map((path) => `apps/${app.appId}/test/${path.replace("$", userId)}`);
  for (const path of ["apps", "apps/sessions", "apps/admin-keys", ...ofTest]) {
    const page = await browser.get(`/admin/${path}`);
    expect([200, 400], path).toContain(page.status);
    await page.text();
  }
  await post("erase-person", { distinctId: "ana" });
  await admin("PUT", "clock", { now: new Date(clock.ms + 60_000).toISOString() });
  await scheduled(bound(databases), { isolate: {}, now: clock.now, newId: randomId });
  return texts;
}

it("no statement scans a table or all of a tenant's rows to find a few", {
  timeout: 120_000,
}, async () => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  vi.spyOn(console, "error").mockReturnValue();
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => new Response());
  const texts = await textsOfAllStatements();
  expect(texts.size).toBeGreaterThan(240);
  // SQLite would prepare these again at every run.
  expect([...texts].filter((text) => /\blimit \?/i.test(text))).toEqual([]);

  const readingsOf = await planReader();
  const readings: Reading[] = [];
  for (const text of texts) readings.push(...(await readingsOf(text)));
  const isAllowedBy = ({ detail, text }: Reading, scan: AllowedScan) =>
    detail === scan.detail && text.includes(scan.text);
  const scans = readings.filter(({ table }) => !FEW.has(table));
  expect(scans.filter((reading) => !ALLOWED_SCANS.some((scan) => isAllowedBy(reading, scan)))).toEqual([]);
  // An entry of the list that no statement needs fails too.
  expect(ALLOWED_SCANS.filter((scan) => !scans.some((reading) => isAllowedBy(reading, scan)))).toEqual([]);
});

it("the reader of query plans finds scans of a table and of an alias that a subquery also uses", async () => {
  const readingsOf = await planReader();
  const plansOf = async (text: string) => [...new Set((await readingsOf(text)).map(({ detail }) => detail))];
  expect(await plansOf("SELECT count(properties) FROM usage_events")).toEqual(["SCAN usage_events"]);
  expect(await plansOf("SELECT data FROM webhook_messages WHERE environment_id = ?1 AND data = ?2")).toEqual([
    "SCAN webhook_messages",
  ]);
  expect(
    await plansOf(
      "SELECT 1 FROM payments AS r WHERE currency = ?1 AND EXISTS (SELECT 1 FROM (SELECT 1 AS i LIMIT 1) AS r)",
    ),
  ).toEqual(["SCAN r"]);
  expect(await plansOf("SELECT 1 FROM payments WHERE environment_id = ?1 AND id = ?2")).toEqual([]);
});
