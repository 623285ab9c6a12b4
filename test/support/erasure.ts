import { env } from "cloudflare:workers";
import { cancelRecurring } from "../../src/books/recurring/cancel-recurring.ts";
import { releaseReservation } from "../../src/books/usage/release.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { addUserNote } from "../../src/people/user-notes.ts";
import type { TenantCtx } from "../../src/runtime.ts";
import { columnClasses } from "./column-classes.ts";
import { expectOk } from "./operation.ts";
import { send } from "./people.ts";
import {
  type Answer,
  type Bindings,
  type Client,
  Clock,
  makeApp,
  makeClient,
  makeCtx,
  makeOpenAmountPack,
  makePack,
} from "./world.ts";

/** This text is in every id and every text of the person, so that a search finds remaining data. */
const MARK = "Zq7-ana";
export const ANA = `${MARK}@example.com`;
export const DEVICE = "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f";
export const CRM = `crm-${MARK}`;
const text = (kind: string): string => `${kind} of ${MARK}`;

export interface ErasureWorld {
  readonly clock: Clock;
  readonly call: Client;
  readonly app: Awaited<ReturnType<typeof makeApp>>;
  readonly post: (path: string, body: object) => Promise<Answer>;
  readonly get: (path: string) => Promise<Answer>;
}

export async function erasureWorld(bindings: Bindings = {}): Promise<ErasureWorld> {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock, bindings);
  const key = app.keys.sk_live;
  await makePack(app.appId, "Two", [
    { amountMinor: 400_000, unit: "tokens", matches: [{ event: "chat.*" }] },
    { amountMinor: 5_000_000, unit: "cents" },
  ]);
  await makeOpenAmountPack(app.appId, "Wallet", "tokens");
  return {
    clock,
    call,
    app,
    post: (path, body) => call("POST", `/api/v1/${path}`, { key, body }),
    get: (path) => call("GET", `/api/v1/${path}`, { key }),
  };
}

/** A usage event of one token, without its user and id. */
export const oneToken = { event: "chat.done", quantities: { tokens: 1 } };

const consentTexts = { source: text("source"), method: text("method"), noticeVersion: text("notice") };
const chatUsage = (tokens: number) => ({ event: "chat.completed", model: "large", quantities: { tokens } });

/** Stores all kinds of data about a person: Ana, her device, and her id in another system. */
export async function fillPerson({ app, call, clock, post }: ErasureWorld, userId = ANA): Promise<void> {
  const write = (path: string, body: object) => expectOk(post(path, body));
  const grant = (more: object) => write("credits/grant", { userId, packId: "Two", notes: text("notes"), ...more });
  const tag = userId;
  const { body: granted } = await grant({ externalRef: `order-${tag}` });
  await grant({ externalRef: `order-2-${tag}` });
  const { body: other } = await grant({});
  await write("usage/events", {
    eventId: `e1-${tag}`,
    userId,
    ...chatUsage(30),
    properties: { note: text("a property") },
  });
  const large = { note: text("much").repeat(100) };
  await write("usage/events", { eventId: `e5-${tag}`, userId, ...chatUsage(3), properties: large });
  await write("usage/events", { eventId: `e2-${tag}`, userId, event: "seen", quantities: { count: 0 } });
  const reserve = (name: string, more: object) =>
    write("usage/reservations", {
      reservationId: `res_${name}_${app.environments.live.id}`,
      userId,
      ...chatUsage(10),
      ...more,
    });
  const id = (name: string) => `usage/reservations/res_${name}_${app.environments.live.id}`;
  await reserve("Zq7anaopen", {});
  // It begins later, so it grants nothing yet.
  const startsAt = new Date(clock.ms + DAY_MS).toISOString();
  const recurringId = `rec_Zq7ana_${app.environments.live.id}`;
  await write("credits/recurring", { recurringId, userId, packId: "Two", every: "month", startsAt });
  await reserve("Zq7anacharge", { onExpiry: "charge" });
  await reserve("Zq7anacommit", {});
  await write(`${id("Zq7anacommit")}/commit`, { eventId: `e3-${tag}`, quantities: { tokens: 12 } });
  await reserve("Zq7anarelease", {});
  await write(`${id("Zq7anarelease")}/release`, {});
  // The audit of administration has these actions of an operator.
  await reserve("Zq7anareleased", {});
  const operator: TenantCtx = { ...makeCtx(app.environments.live, clock), caller: { kind: "admin", by: "ops" } };
  await releaseReservation(operator, `res_Zq7anareleased_${app.environments.live.id}`);
  await addUserNote(operator, userId, text("a note"));
  await addUserNote(operator, CRM, text("another note"));
  await cancelRecurring(operator, recurringId, { at: "period_end" });
  await reserve("Zq7anacharged", { onExpiry: "charge", expiresInSeconds: 1 });
  clock.advance(2_000);
  await write("usage/events", { eventId: `e4-${tag}`, userId, ...chatUsage(1) });
  await write("credits/refund", {
    ...{ userId, externalRef: `order-2-${tag}`, refundRef: `refund-${tag}`, share: { part: 1, of: 4 } },
    reason: text("a reason"),
  });
  // This reference looks like a payment's, but it is the caller's.
  const ref = { userId, externalRef: `order-2-${tag}`, refundRef: `stripe:${tag}` };
  await write("credits/refund", { ...ref, share: { part: 1, of: 4 } });
  await write("credits/revoke", { balanceId: other.balanceId, reason: text("why") });
  await expectOk(
    call("POST", `/api/v1/admin/balances/${granted.balanceId}/adjust`, {
      key: env.ADMIN_TOKEN,
      body: { delta: 5, note: text("a note"), adjustmentId: `adj-${tag}` },
    }),
  );
  await write("consent", { distinctId: userId, purpose: text("purpose"), decision: "granted", ...consentTexts });
  await send(call, app.keys.sk_live, [
    { event: text("event"), distinct_id: userId, properties: { $set: { email: userId } } },
    { event: "$identify", distinct_id: userId, properties: { $anon_distinct_id: DEVICE } },
    { event: "$create_alias", distinct_id: userId, properties: { alias: CRM } },
    { event: "$pageview", distinct_id: DEVICE, properties: { $current_url: text("a page") } },
    { event: "seen", distinct_id: CRM, properties: {} },
  ]);
  const { id: environmentId } = app.environments.live;
  const payment = `pay_${environmentId}`;
  await env.DB.batch(
    [
      `INSERT INTO webhook_messages (id, environment_id, type, at_ms, subject, data)
       VALUES ('msg_${environmentId}', ${environmentId}, 'credits.granted', 1, '${userId}', '{"userId":"${userId}"}')`,
      `INSERT INTO webhook_deliveries (endpoint_id, message_id, status, next_attempt_at_ms, due_at_ms, attempts)
       VALUES ('whk_${environmentId}', 'msg_${environmentId}', 'failed', 1, 1, '[{"at":1,"status":400,"error":"no ${MARK}"}]')`,
      // The person is a member of another payer too, whose use was rejected.
      `INSERT INTO rejections VALUES (${environmentId}, 'team-${environmentId}', '${userId}', 'shortage', 'chat', '', '{"tokens":1}', 1, 1)`,
      `INSERT INTO rejections VALUES (${environmentId}, '${userId}', '', 'shortage', 'chat ${MARK}', 'model ${MARK}', '{"tokens":1}', 1, 1)`,
      `INSERT INTO stripe_customers VALUES (${environmentId}, 'cus_${MARK}', '${userId}', 1)`,
      `INSERT INTO payments (environment_id, id, status, reason, customer, settled_by, notify_at_ms, written_by, created_at_ms)
       VALUES (${environmentId}, '${payment}', 'unmatched', 'no_pack', 'cus_${MARK}', '${MARK}', 1, 'w', 1)`,
      `INSERT INTO payment_facts VALUES (${environmentId}, '${payment}', 'session', 'cs_1', 1, '${userId}', '{"pack":"${MARK}","quantity":"${MARK}","total":1}')`,
      `INSERT INTO stripe_log (environment_id, event_id, type, at_ms, ordinal, outcome, requested_pack, requested_user)
       VALUES (${environmentId}, 'evt_1', 'checkout.session.completed', 1, 1, 'granted', '${MARK}', '${userId}')`,
      `INSERT INTO stripe_payers VALUES (${environmentId}, 'cus_${MARK}', 'payer_1', 1, '{"usd":5}', '[]', '[]', 0)`,
      `INSERT INTO payer_users VALUES (${environmentId}, '${userId}', 'cus_${MARK}')`,
    ].map((sql) => env.DB.prepare(sql)),
  );
  const { body: link } = await write("export-person", { distinctId: userId });
  await expectOk(call("GET", link.downloadUrl));
}

/** The columns of each table that an erasure must handle. */
async function readClassifiedColumns() {
  const { results: columns } = await env.DB.prepare(
    `SELECT m.name AS name, c.name AS field FROM sqlite_schema AS m CROSS JOIN pragma_table_info(m.name) AS c
     WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE '_cf_%' AND m.name NOT LIKE 'd1_%'`,
  ).all<{ name: string; field: string }>();
  return Map.groupBy(
    columns.filter(({ name }) => name in columnClasses),
    ({ name }) => name,
  );
}
let classifiedColumns: Awaited<ReturnType<typeof readClassifiedColumns>> | undefined;

/** The columns, as `table.column`, that contain one of the texts. */
export async function findInDatabase(texts: readonly string[], environmentId: number) {
  classifiedColumns ??= await readClassifiedColumns();
  const accounts = `SELECT id FROM accounts WHERE environment_id = ${environmentId}`;
  const apps = `SELECT app_id FROM environments WHERE id = ${environmentId}`;
  const endpoints = `SELECT 'whk_${environmentId}' UNION SELECT id FROM webhook_endpoints WHERE environment_id = ${environmentId}`;
  const statements = [...classifiedColumns].map(([name, ofTable]) => {
    const fields = ofTable.map(({ field }) => field);
    const scope = fields.includes("environment_id")
      ? `environment_id = ${environmentId}`
      : fields.includes("account_id")
        ? `account_id IN (${accounts})`
        : fields.includes("app_id")
          ? `app_id IN (${apps})`
          : fields.includes("endpoint_id")
            ? `endpoint_id IN (${endpoints})`
            : "1";
    const any = (field: string) => texts.map((_, n) => `instr(lower("${field}"), lower(?${n + 1})) > 0`).join(" OR ");
    const sums = fields.map((field) => `coalesce(sum(${any(field)}), 0) AS "${field}"`);
    return env.DB.prepare(`SELECT '${name}' AS "of", ${sums.join()} FROM "${name}" WHERE ${scope}`).bind(...texts);
  });
  const found = (await env.DB.batch<Record<string, number | string>>(statements)).flatMap(({ results: [row = {}] }) =>
    Object.entries(row).flatMap(([field, count]) => (Number(count) > 0 ? [`${row.of}.${field}`] : [])),
  );
  return found.sort();
}

/** Texts that occur in all data of the person. */
export const TRACES = [MARK, "Zq7ana", DEVICE];
