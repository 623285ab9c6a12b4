import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { expectError } from "../support/rejections.ts";
import { makeSpender } from "../support/spender.ts";
import { type Answer, Clock, makeApp, makeClient, makeOpenAmountPack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

type Send = (body?: unknown, headers?: Record<string, string>) => Promise<Answer>;

/** POST requests whose body must have no fields. `isDone` says whether the request took effect. */
const actions: Readonly<Record<string, () => Promise<{ send: Send; isDone: () => Promise<boolean> }>>> = {
  "a release": async () => {
    const { reserve, post, remaining } = await makeSpender([{ amountMinor: 5_000, unit: "count" }]);
    const { reservationId } = (await reserve({ quantities: { count: 2 } })).body;
    return {
      send: (body, headers) => post(`/api/v1/usage/reservations/${reservationId}/release`, body, headers),
      isDone: async () => (await remaining())[0] === 5,
    };
  },
  "an archiving": async () => {
    const app = await makeApp();
    const packId = await makeOpenAmountPack(app.appId, "Pack", "count");
    const call = makeClient(new Clock());
    const path = `/api/v1/admin/apps/${app.appId}/packs/${packId}/archive`;
    return {
      send: (body, headers = {}) =>
        call("POST", path, { key: env.ADMIN_TOKEN, headers, ...(body === undefined ? {} : { body }) }),
      isDone: async () => {
        const row = await env.DB.prepare("SELECT archived_at_ms AS at FROM credit_packs WHERE id = ?")
          .bind(packId)
          .first();
        return row?.at !== null;
      },
    };
  },
};

describe.each(Object.entries(actions))("%s, whose body must have no fields,", (_name, prepare) => {
  it("rejects a body with a field, names the field, and does nothing", async () => {
    const { send, isDone } = await prepare();
    expectError(await send({ reason: "refund" }), "invalid_request", "reason");
    expectError(await send('{"__proto__":1}'), "invalid_request", "__proto__");
    for (const body of ["null", "[]", "1", '"text"', "{", " ", "reason=refund", new Uint8Array([0x7b, 0xff, 0x7d])]) {
      expectError(await send(body), "invalid_request", "body");
    }
    expectError(await send({ reason: "x" }, { "content-type": "text/plain" }), "invalid_request", "reason");
    expect(await isDone()).toBe(false);
  });

  it.each([[undefined], [""], ["{}"], [" {} "]])("accepts the body %j", async (body) => {
    const { send, isDone } = await prepare();
    expect((await send(body)).status).toBe(200);
    expect((await send(body, { "content-type": "text/plain" })).status).toBe(200);
    expect(await isDone()).toBe(true);
  });
});
