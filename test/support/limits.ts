import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { randomId } from "../../src/lib/ids.ts";
import { type Bindings, Clock, makeApp, makeClient, makePack, type PickIsolate, type TestItem } from "./world.ts";

const MILLION_CREDITS: TestItem = { amountMinor: 1_000_000_000, unit: "count" };

interface LimitsOptions {
  readonly limits?: readonly object[];
  readonly items?: readonly TestItem[];
  readonly bindings?: Bindings;
  readonly pick?: PickIsolate;
}

/** An application whose live environment has usage limits, with a user "u" who has a million credits in `count`. */
export async function limitsWorld({
  limits = [{}],
  items = [MILLION_CREDITS],
  bindings = {},
  pick = () => 0,
}: LimitsOptions = {}) {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock, bindings, randomId, pick);
  const packId = await makePack(app.appId, "Pack", items);
  const admin = (method: string, path: string, body?: object) =>
    call(method, `/api/v1/admin/apps/${app.appId}${path}`, {
      key: env.ADMIN_TOKEN,
      ...(body === undefined ? {} : { body }),
    });
  const key = app.keys.sk_live;
  /** Calls the API with the live secret key. */
  const ask = (method: string, path: string, body?: object) =>
    call(method, `/api/v1${path}`, { key, ...(body === undefined ? {} : { body }) });
  /** Like `ask`, but expects the status 200 and returns the body. */
  const callOk = async (method: string, path: string, body?: object) => {
    const answer = await ask(method, path, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  let limitCount = 0;
  const makeLimit = async (fields: object = {}): Promise<string> => {
    const limit = { mode: "live", name: `Limit ${limitCount++}`, unit: "count", amount: 10, every: "day", ...fields };
    const answer = await admin("POST", "/usage-limits", limit);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body.limitId;
  };
  const limitIds: string[] = [];
  for (const limit of limits) limitIds.push(await makeLimit(limit));
  const grant = (userId = "u") => callOk("POST", "/credits/grant", { userId, packId });
  await grant();
  let eventCount = 0;
  const event = (count: number, fields: object = {}) =>
    ask("POST", "/usage/events", {
      eventId: `e${eventCount++}`,
      userId: "u",
      event: "chat",
      quantities: { count },
      ...fields,
    });
  const use = async (count: number, fields: object = {}) => {
    const answer = await event(count, fields);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  const hold = (count: number, fields: object = {}) =>
    ask("POST", "/usage/reservations", {
      userId: "u",
      event: "chat",
      quantities: { count },
      expiresInSeconds: 60,
      ...fields,
    });
  /** Makes a reservation, and returns its id. */
  const holdOk = async (count: number, fields: object = {}): Promise<string> => {
    const answer = await hold(count, fields);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body.reservationId;
  };
  const commit = (reservationId: string, count: number, fields: object = {}) =>
    ask("POST", `/usage/reservations/${reservationId}/commit`, {
      eventId: `e${eventCount++}`,
      quantities: { count },
      ...fields,
    });
  const release = (reservationId: string) => ask("POST", `/usage/reservations/${reservationId}/release`);
  /** The user's usage of each limit, in the order of creation. */
  const checkpoints = async (userId = "u") => (await callOk("GET", `/usage/limits?userId=${userId}`)).limits;
  const used = async (userId = "u"): Promise<number[]> =>
    (await checkpoints(userId)).map((standing: { used: number }) => standing.used);
  return {
    ...{ clock, app, call, key, packId, admin, ask, callOk, makeLimit, limitIds, grant },
    ...{ event, use, hold, holdOk, commit, release, checkpoints, used },
  };
}
