import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { FaultPlan, FaultyD1 } from "./faulty-d1.ts";
import type { createModel, Answer as ModelAnswer, Pack, Spent } from "./model.ts";
import { rounded, roundedUse } from "./model-amounts.ts";
import type { createErasures } from "./model-erasure.ts";
import type { Limit } from "./model-limits.ts";
import type { createPayments, PaymentBalanceChange } from "./model-payments.ts";
import { modelList, modelPlan, modelReservations, modelTotals } from "./model-reads.ts";
import type { createRefunds, RefundResult } from "./model-refunds.ts";
import type { Request } from "./requests.ts";
import { sendStripe } from "./send-stripe.ts";
import type { Answer, Client, Clock } from "./world.ts";

/** Purser and the model, which are compared. */
export interface Pair {
  readonly call: Client;
  readonly key: string;
  readonly cron: () => Promise<void>;
  readonly environmentId: number;
  readonly packs: readonly Pack[];
  readonly model: ReturnType<typeof createModel>;
  readonly appId: string;
  readonly clock: Clock;
  /** The model of Stripe's events. */
  readonly pay: ReturnType<typeof createPayments>;
  /** The changes that these events caused. */
  readonly paymentBalanceChanges: readonly PaymentBalanceChange[];
  /** The model of refunds. */
  readonly refund: ReturnType<typeof createRefunds>;
  readonly refunds: readonly RefundResult[];
  /** The model of erasures, and Purser's id of each user's latest erasure. */
  readonly erasures: ReturnType<typeof createErasures>;
  readonly erasureIds: Map<string, string>;
  /** The number of compared ledger rows, and the last seq of each user. */
  readonly compared: { rows: number; readonly seqs: Map<string, number> };
}

const OK = { status: 200, body: null };
const query = (path: string, parts: Record<string, string>): string => `${path}?${new URLSearchParams(parts)}`;

/** Sends the request to Purser. */
async function sendTo(pair: Pair, request: Request): Promise<Pick<Answer, "status" | "body"> & Partial<Answer>> {
  const post = (path: string, body: object, key = pair.key) => pair.call("POST", `/api/v1/${path}`, { key, body });
  const get = (path: string) => pair.call("GET", `/api/v1/${path}`, { key: pair.key });
  switch (request.kind) {
    case "grant": {
      const { userId, expiresAt, quantity, ref } = request;
      return post("credits/grant", {
        ...{ userId, packId: request.pack },
        ...(quantity === undefined ? {} : { quantity }),
        ...(ref === null ? {} : { externalRef: ref }),
        ...(expiresAt === null ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
      });
    }
    case "refund": {
      const { kind, ref, pack, ...named } = request;
      return post(`credits/${kind}`, { ...named, externalRef: ref, ...(pack === undefined ? {} : { packId: pack }) });
    }
    case "revoke":
      return post("credits/revoke", { balanceId: request.balanceId, reason: request.reason });
    case "adjust": {
      const { balanceId, delta, note } = request;
      return post(`admin/balances/${balanceId}/adjust`, { delta, note }, env.ADMIN_TOKEN);
    }
    case "event":
      return post("usage/events", { ...request.use, ...request.spent });
    case "events":
      return post(
        "usage/events",
        request.list.map(({ use, spent }) => ({ ...use, ...spent })),
      );
    case "reserve": {
      const { use, seconds, reservationId, onExpiry } = request;
      const idField = reservationId === null ? {} : { reservationId };
      return post("usage/reservations", {
        ...use,
        ...(use.meters === undefined && { quantities: use.quantities ?? {} }),
        expiresInSeconds: seconds,
        ...(onExpiry && { onExpiry }),
        ...idField,
      });
    }
    case "commit":
      return post(`usage/reservations/${request.reservationId}/commit`, {
        ...(request.meters === undefined ? { quantities: request.quantities } : { meters: request.meters }),
        ...(request.model === undefined ? {} : { model: request.model }),
        ...request.spent,
      });
    case "release":
      return post(`usage/reservations/${request.reservationId}/release`, {});
    case "extend": {
      const { reservationId, seconds } = request;
      return post(`usage/reservations/${reservationId}/extend`, { expiresInSeconds: seconds });
    }
    case "prices": {
      const { rules, costs, effectiveAt } = request;
      const at = effectiveAt === null ? {} : { effectiveAt: new Date(effectiveAt).toISOString() };
      const path = `/api/v1/admin/apps/${pair.appId}/prices`;
      return pair.call("PUT", path, { key: env.ADMIN_TOKEN, body: { mode: "live", rules, costs, ...at } });
    }
    case "stripe":
      return sendStripe(pair, request);
    case "cron":
      await pair.cron();
      return OK;
    case "erase": {
      const answer = await post("erase-person", { distinctId: request.userId });
      if (answer.status === 200) pair.erasureIds.set(request.userId, answer.body.erasureId);
      return answer;
    }
    case "lift": {
      const erasureId = pair.erasureIds.get(request.userId);
      return erasureId === undefined ? OK : post(`erasures/${erasureId}/lift`, {});
    }
    case "list":
      return get(
        query("credits", {
          ...{ userId: request.userId, includeExpired: `${request.includeExpired}` },
          ...(request.ref === undefined ? {} : { externalRef: request.ref }),
        }),
      );
    case "reservations":
      return allReservations(get, request);
    case "plan":
      return post("credits/plan", request.use);
    case "limit": {
      const path = `/api/v1/admin/apps/${pair.appId}/usage-limits/${limitOf(pair, request.name).limitId}`;
      return pair.call("PATCH", path, { key: env.ADMIN_TOKEN, body: { amount: request.amount } });
    }
    case "own amount": {
      const { userId, memberId, name, amount } = request;
      const member = memberId === undefined ? {} : { memberId };
      const path = `/api/v1/usage/limits/${limitOf(pair, name).limitId}/amount`;
      if (amount !== undefined) return pair.call("PUT", path, { key: pair.key, body: { userId, ...member, amount } });
      return pair.call("DELETE", query(path, { userId, ...member }), { key: pair.key });
    }
    case "checkpoints": {
      const { userId, memberId } = request;
      return get(query("usage/limits", { userId, ...(memberId === undefined ? {} : { memberId }) }));
    }
    case "totals": {
      const [from, to] = [new Date(request.fromMs).toISOString(), new Date(request.toMs).toISOString()];
      return get(query("usage", { userId: request.userId, from, to }));
    }
  }
}

function limitOf({ model }: Pair, name: string): Limit {
  const limit = model.limits.limits.find((limit) => limit.name === name);
  if (limit === undefined) throw new Error(`The history names an unknown limit: ${name}.`);
  return limit;
}

/** All pages of a list of reservations, as one list. */
async function allReservations(
  get: (path: string) => Promise<Answer>,
  { userId, status, limit }: Extract<Request, { kind: "reservations" }>,
): Promise<Pick<Answer, "status" | "body">> {
  const reservations: object[] = [];
  let cursor: string | null = null;
  do {
    const parts = { userId, limit: `${limit}`, ...(status && { status }), ...(cursor && { cursor }) };
    const answer = await get(query("usage/reservations", parts));
    if (answer.status !== 200) return answer;
    const page: object[] = answer.body.reservations;
    cursor = answer.body.nextCursor;
    expect(page.length).toSatisfy((n: number) => (cursor === null ? n <= limit : n === limit));
    reservations.push(...page);
  } while (cursor !== null);
  return { status: 200, body: reservations };
}

type ListResult = { readonly error?: { readonly code: string; readonly details?: object } };

/** The error codes whose details the model knows. */
const WITH_REASONS = new Set([
  "insufficient_credits",
  "idempotency_conflict",
  "usage_limit_reached",
  "price_not_found",
]);

/** One result of a list in the form of the model: the answer, or the error code with its details. */
function resultInModelForm(result: ListResult): object {
  const { error } = result;
  if (error === undefined) return { body: result };
  const { code, details } = error;
  return { code, ...(WITH_REASONS.has(code) ? { body: details } : {}) };
}

/** Purser's response in the form of the model. */
function inModelForm(request: Request, answer: Partial<Answer> & Pick<Answer, "status" | "body">): ModelAnswer {
  const { status, body } = answer;
  if (status !== 200) {
    const { code, details } = body.error;
    return { status, code, ...(WITH_REASONS.has(code) ? { body: details } : {}) };
  }
  const replayed = answer.headers?.get("idempotent-replayed") === "true";
  switch (request.kind) {
    case "grant": {
      // The client has checked the response against openapi.json.
      const rows = body.balances as { balanceId: string; packItemId: string; remaining: number; expiresAt: string }[];
      return { status, body: rows.map((b) => [b.balanceId, b.packItemId, b.remaining, b.expiresAt]), replayed };
    }
    case "list": {
      const rows = body.credits as { balanceId: string; remaining: number; status: string }[];
      return { status, body: rows.map(({ balanceId, remaining, status }) => ({ balanceId, remaining, status })) };
    }
    case "totals": {
      const rows = body.totals as { event: string; unit: string; amount: number }[];
      return { status, body: rows.map(({ event, unit, amount }) => `${event} ${unit} ${amount}`).sort() };
    }
    case "prices":
      return { status, body: { version: body.version } };
    case "stripe":
      return { status, body: body.outcome };
    case "extend":
      return { status, body: body.expiresAt };
    case "events":
      return { status, body: (body.results as ListResult[]).map(resultInModelForm) };
    case "erase":
      return { status, body: body.status, replayed };
    case "checkpoints":
      return { status, body: body.limits };
    case "cron":
    case "lift":
    case "limit":
    case "release":
      return { status };
    default:
      return { status, body, ...(replayed ? { replayed } : {}) };
  }
}

/** The result of an element of a list, which tells whether it is a replay (U1). */
const resultOf = ({ code, body, replayed }: ModelAnswer) => ({
  ...(code && { code }),
  ...(body !== undefined && { body: replayed === true ? { ...Object(body), isReplayed: true } : body }),
});

/** The model's response. Ids that Purser created are taken from Purser's response. */
function askModel(pair: Pair, request: Request, answer: Pick<Answer, "status" | "body">): ModelAnswer {
  const { model, packs, erasures } = pair;
  const rejection = erasures.reject(request);
  if (rejection !== null) return rejection;
  switch (request.kind) {
    case "grant": {
      const { userId, ref, quantity } = request;
      const name = request.pack.toLowerCase();
      const pack = packs.find(({ packId, packName }) => packId === request.pack || packName.toLowerCase() === name);
      if (pack === undefined) throw new Error(`The history names an unknown pack: ${request.pack}.`);
      const items = pack.items.map((item) => ({ ...item, initial: quantity ?? item.initial }));
      const ids = answer.status === 200 ? (answer.body.balances as { balanceId: string }[]) : [];
      const to = { userId, ref, expiresAt: request.expiresAt ?? Infinity };
      return model.grant(
        { ...pack, items },
        to,
        ids.map(({ balanceId }) => balanceId),
      );
    }
    case "refund":
      return pair.refund(request);
    case "prices":
      return model.prices.set(request);
    case "stripe":
      return pair.pay(request, answer.body.balances);
    case "revoke":
    case "adjust": {
      const balance = model.balances.find(({ id }) => id === request.balanceId);
      if (balance === undefined) return { status: 404, code: "credit_balance_not_found" };
      if (request.kind === "revoke") return model.revoke(balance, request.reason);
      return model.adjust(balance, request.delta, request.note);
    }
    case "event":
      return model.event(roundedUse(request.use), request.spent);
    case "events":
      return {
        status: 200,
        body: request.list.map(({ use, spent }) =>
          resultOf(erasures.reject({ kind: "event", use, spent }) ?? model.event(roundedUse(use), spent)),
        ),
      };
    case "reserve": {
      const createdId = answer.status === 200 ? (answer.body.reservationId as string) : "res_rejected";
      return model.reserve(
        roundedUse(request.use),
        request.seconds,
        request.onExpiry,
        request.reservationId ?? createdId,
      );
    }
    case "commit":
    case "extend":
    case "release": {
      const hold = model.holds.get(request.reservationId);
      if (hold === undefined) return { status: 404, code: "reservation_not_found" };
      if (request.kind === "commit") {
        const { quantities = {}, meters, model: name } = request;
        const used = meters === undefined ? { quantities: rounded(quantities) } : { meters };
        return model.commit(hold, { ...used, ...(name && { model: name }) }, request.spent);
      }
      if (request.kind === "extend") return model.extend(hold, request.seconds);
      return model.release(hold);
    }
    case "erase":
      pair.compared.seqs.set(request.userId, 0);
      return erasures.erase(request.userId);
    case "lift":
      return erasures.lift(request.userId);
    case "cron":
      model.expire();
      return { status: 200 };
    case "limit":
      limitOf(pair, request.name).amount = request.amount;
      return { status: 200 };
    case "own amount": {
      const { userId, memberId = null, name, amount } = request;
      const limit = limitOf(pair, name);
      model.expire(userId);
      model.limits.setOwn({ userId, memberId, limitId: limit.limitId }, amount);
      return { status: 200, body: model.limits.checkpointOf(limit, userId, memberId) };
    }
    case "checkpoints":
      return { status: 200, body: model.limits.checkpoints(request.userId, request.memberId) };
    case "reservations":
      return { status: 200, body: modelReservations(model, request.userId, request.status) };
    case "list":
      return { status: 200, body: modelList(model, request.userId, request.includeExpired, request.ref) };
    case "plan":
      return modelPlan(model, roundedUse(request.use));
    case "totals":
      return { status: 200, body: modelTotals(model, request.userId, request.fromMs, request.toMs) };
  }
}

/** Whether some events of a list failed temporarily. */
const isPartlyUnavailable = (body: { results?: ListResult[] } | null): boolean =>
  body?.results?.some(({ error }) => error?.code === "temporarily_unavailable") === true;

/**
 * The response to a list without the parts that may differ in a repeat: shortages that later events of the list changed, and the
 * error code of an event whose id a later event of the list also has.
 */
function withoutRepeatDifferences(
  list: readonly { readonly spent: Spent }[],
  { body, ...rest }: { readonly body?: unknown },
): object {
  const results = body as { code?: string; body?: unknown }[];
  const ids = list.map(({ spent }) => spent.eventId);
  const isTakenLater = (place: number) => ids.lastIndexOf(ids[place] ?? "") > place;
  // An event that was rejected for insufficient credits may be rejected by a limit in the repeat, because later events count.
  const isTooMuch = (code: string) => code === "insufficient_credits" || code === "usage_limit_reached";
  const shown = results.map((result, place) =>
    result.code === undefined
      ? { body: { ...Object(result.body), isReplayed: undefined } }
      : { code: isTakenLater(place) || isTooMuch(result.code) ? "refused" : result.code },
  );
  return { ...rest, body: shown };
}

/** Sends a request whose trips fail as planned, and sends it again after a 503. */
async function sendWithFault(pair: Pair, request: Request, faulty: FaultyD1, plan: FaultPlan) {
  faulty.plan(plan);
  const answer = await sendTo(pair, request);
  faulty.plan(null);
  if (answer.status !== 503 && !isPartlyUnavailable(answer.body)) return { answer, isRepeat: false };
  expect(answer.headers?.get("retry-after")).not.toBeNull();
  return { answer: await sendTo(pair, request), isRepeat: true };
}

/** Sends one request to Purser and to the model, with or without a fault. Both must give the same response. */
export async function sendToBoth(
  pair: Pair,
  request: Request,
  where: string,
  planned: { faulty: FaultyD1; plan: FaultPlan } | null = null,
): Promise<ModelAnswer> {
  const context = `${where}: ${JSON.stringify(request)}${planned === null ? "" : ` under ${JSON.stringify(planned.plan)}`}`;
  const { answer, isRepeat } =
    planned === null
      ? { answer: await sendTo(pair, request), isRepeat: false }
      : await sendWithFault(pair, request, planned.faulty, planned.plan);
  const modelForm = inModelForm(request, answer);
  const expected = askModel(pair, request, answer);
  pair.model.limits.endRequest();
  // The first request may have been stored although its answer was lost. Then the second is a replay.
  const actual = isRepeat ? { ...modelForm, replayed: expected.replayed } : modelForm;
  // A repeated delivery of Stripe has no further effect (S5).
  if (isRepeat && request.kind === "stripe") actual.body = expected.body;
  if (isRepeat && request.kind === "events") {
    const { list } = request;
    expect(withoutRepeatDifferences(list, actual), `response to ${context}`).toEqual(
      withoutRepeatDifferences(list, expected),
    );
  } else {
    expect(actual, `response to ${context}`).toEqual(expected);
  }
  return modelForm;
}
