import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Behaviour, type Receiver, startReceiver } from "./support/receiver.ts";
import { ADMIN_TOKEN, type Server, sharedServer } from "./support/server.ts";

// H1, H4: the built Worker sends to receivers that fail in every way. All receivers count messages, and verify signatures with
// the `standardwebhooks` package.

let server: Server;
const receivers: Receiver[] = [];
beforeAll(async () => {
  server = await sharedServer();
});
afterAll(async () => {
  await Promise.all(receivers.map((receiver) => receiver.close()));
});

type Attempt = { at: string; status: number | null; durationMs: number; error: string | null };
type Delivery = { messageId: string; status: string; nextAttemptAt: string | null; attempts: Attempt[] };

async function request(method: string, path: string, key: string, body?: object) {
  const answer = await fetch(`${server.url}/api/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // A test reads any response. Its assertions say what it should be.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  return { status: answer.status, body: (await answer.json()) as any };
}

async function until(isSo: () => boolean | Promise<boolean>, withinMs: number, what: string): Promise<void> {
  const end = Date.now() + withinMs;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(200);
  }
}

/** Creates an application with a pack, and an endpoint whose receiver behaves as given. */
async function world(behave: Behaviour, { isSelfSigned = false } = {}) {
  const { appId } = (await request("POST", "admin/apps", ADMIN_TOKEN, { name: "Receivers" })).body;
  const admin = (method: string, path: string, body?: object) =>
    request(method, `admin/apps/${appId}${path}`, ADMIN_TOKEN, body);
  const { key } = (await admin("POST", "/keys", { kind: "secret", mode: "live" })).body;
  const items = [{ amount: 1_000, unit: "tokens" }];
  expect((await admin("POST", "/packs", { packName: "Starter", items })).status).toBe(200);
  const receiver = await startReceiver(behave, { isSelfSigned });
  receivers.push(receiver);
  const listen = async (url: string) => {
    const { status, body } = await admin("POST", "/webhooks", { mode: "live", url });
    expect(status, JSON.stringify(body)).toBe(200);
    return body as { webhookId: string; secret: string };
  };
  // The API rejects an https endpoint at a loopback host (H1), so the test writes its address directly.
  const { webhookId, secret } = await listen(isSelfSigned ? "https://receiver.example/hook" : receiver.url);
  if (isSelfSigned) {
    await server.db.prepare("UPDATE webhook_endpoints SET url = ? WHERE id = ?").bind(receiver.url, webhookId).run();
  }
  const grant = async (userId = "ana") => {
    const { status, body } = await request("POST", "credits/grant", key, { userId, packId: "Starter" });
    expect(status, JSON.stringify(body)).toBe(200);
    return { balanceId: body.balanceId as string };
  };
  const deliveries = async (id = webhookId): Promise<Delivery[]> =>
    (await admin("GET", `/webhooks/${id}/deliveries`)).body.deliveries;
  /** Waits until this number of attempts of the only message is recorded. */
  const attempted = async (count: number, withinMs = 20_000): Promise<Delivery> => {
    const some = async () => (await deliveries())[0]?.attempts.length ?? 0;
    await until(async () => (await some()) >= count, withinMs, `${count} attempts`);
    const [delivery] = await deliveries();
    if (delivery === undefined) throw new Error("There is no delivery.");
    return delivery;
  };
  /** Makes the next attempt due now, and runs the cron. */
  const cron = async () => {
    await server.db
      .prepare(
        "UPDATE webhook_deliveries SET next_attempt_at_ms = 1, due_at_ms = 1 WHERE endpoint_id = ? AND status = 'pending'",
      )
      .bind(webhookId)
      .run();
    await server.cron();
  };
  return { admin, receiver, webhookId, secret, listen, grant, deliveries, attempted, cron };
}

const ok: Behaviour = (response) => void response.writeHead(204).end();
const msBetween = (a: Attempt | undefined, b: Attempt | undefined) =>
  Date.parse(b?.at ?? "") - Date.parse(a?.at ?? "") - (a?.durationMs ?? 0);

describe.concurrent("a receiver", () => {
  it("that works gets each message once, with a signature that the package verifies", async () => {
    const { receiver, grant, secret, deliveries } = await world(ok);
    const granted = await Promise.all(Array.from({ length: 12 }, (_, n) => grant(`user ${n}`)));
    await until(() => receiver.messages().length === 12, 20_000, "twelve messages");
    receiver.verifyAll(secret);
    const balanceIds = receiver.messages().map(({ data }) => data.balances[0].balanceId);
    expect(balanceIds.sort()).toEqual(granted.map(({ balanceId }) => balanceId).sort());
    await until(async () => (await deliveries()).every(({ status }) => status === "delivered"), 20_000, "delivered");
    await server.cron();
    expect(receiver.attempts).toHaveLength(12);
    expect(() => receiver.verifyAll(`whsec_${Buffer.alloc(32).toString("base64")}`)).toThrow();
  });

  it("can verify with the old and the new secret during a rotation", async () => {
    const { receiver, grant, secret, admin, webhookId } = await world(ok);
    const { body } = await admin("POST", `/webhooks/${webhookId}/rotate`, {});
    await grant();
    await until(() => receiver.attempts.length === 1, 20_000, "a message");
    receiver.verifyAll(secret);
    receiver.verifyAll(body.secret);
    expect(receiver.attempts[0]?.headers["webhook-signature"]?.split(" ")).toHaveLength(2);
  });

  it("that responds slowly gets its message, and does not delay the caller", async () => {
    const held: ServerResponse[] = [];
    const { grant, attempted, receiver } = await world((response) => void held.push(response));
    // The call is answered although its receiver has not answered yet.
    await grant();
    await until(() => held.length === 1, 20_000, "a message");
    for (const response of held) ok(response, 1);
    const { status, attempts } = await attempted(1);
    expect([status, attempts[0]?.status, receiver.attempts.length]).toEqual(["delivered", 204, 1]);
  });

  it("that never responds is abandoned after ten seconds, tried again by the cron, and delays no other receiver", async () => {
    const silent = await world(() => {});
    const well = await startReceiver(ok);
    receivers.push(well);
    const { secret } = await silent.listen(well.url);
    await silent.grant();
    await until(() => well.attempts.length === 1, 5_000, "the other's message");
    well.verifyAll(secret);
    const { nextAttemptAt } = await silent.attempted(1, 20_000);
    // The same invocation makes no further attempt. A later run of the cron makes the next one.
    await sleep(Math.max(0, Date.parse(nextAttemptAt ?? "") - Date.now()) + 100);
    await server.cron();
    const { status, attempts } = await silent.attempted(2, 40_000);
    expect(status).toBe("pending");
    for (const attempt of attempts) expect(attempt).toMatchObject({ status: null, error: "timeout" });
    expect(msBetween(attempts[0], attempts[1])).toBeGreaterThanOrEqual(4_900);
    silent.receiver.verifyAll(silent.secret);
  });

  it("that fails once is tried again after five seconds, with the same id and a signature of that moment", async () => {
    const { grant, attempted, receiver, secret } = await world(
      (response, count) => void response.writeHead(count === 1 ? 500 : 200).end("a page of an error"),
    );
    await grant();
    const { status, attempts } = await attempted(2);
    expect([status, ...attempts.map((one) => one.status)]).toEqual(["delivered", 500, 200]);
    expect(msBetween(attempts[0], attempts[1])).toBeGreaterThanOrEqual(4_900);
    expect(msBetween(attempts[0], attempts[1])).toBeLessThan(9_000);
    const [first, second] = receiver.attempts;
    expect(second?.headers["webhook-id"]).toBe(first?.headers["webhook-id"]);
    expect(second?.text).toBe(first?.text);
    expect(Number(second?.headers["webhook-timestamp"])).toBeGreaterThan(Number(first?.headers["webhook-timestamp"]));
    receiver.verifyAll(secret);
  });

  it("that keeps failing is tried by the cron, as soon as an attempt is due and not before", async () => {
    const { grant, attempted, receiver, cron } = await world(
      (response, count) => void response.writeHead(count < 4 ? 503 : 200).end(),
    );
    await grant();
    const { nextAttemptAt, attempts } = await attempted(2);
    expect(Date.parse(nextAttemptAt ?? "") - Date.parse(attempts[1]?.at ?? "")).toBeGreaterThanOrEqual(60_000);
    await server.cron();
    expect(receiver.attempts).toHaveLength(2);
    for (const count of [3, 4]) {
      await cron();
      await attempted(count);
    }
    const { status } = await attempted(4);
    expect([status, receiver.attempts.length]).toEqual(["delivered", 4]);
    await cron();
    expect(receiver.attempts).toHaveLength(4);
  });

  it.each([301, 302, 307, 308])("that redirects with %i is not followed", async (status) => {
    const elsewhere = await startReceiver(ok);
    receivers.push(elsewhere);
    const { grant, attempted } = await world(
      (response) => void response.writeHead(status, { location: elsewhere.url }).end(),
    );
    await grant();
    const { attempts } = await attempted(1);
    expect(attempts[0]).toMatchObject({ status, error: null });
    expect([elsewhere.connections(), elsewhere.attempts.length]).toEqual([0, 0]);
  });

  it("that responds with 10 MB, or without an end, is not read completely", async () => {
    let [written, isClosed] = [0, false];
    const chunk = Buffer.alloc(65_536, 120);
    const endless: Behaviour = (response) => {
      response.writeHead(200).on("close", () => {
        isClosed = true;
      });
      const pour = () => {
        while (!isClosed && response.write(chunk)) written += chunk.length;
        written += chunk.length;
        if (!isClosed) response.once("drain", pour);
      };
      pour();
    };
    const [large, poured] = await Promise.all([
      world((response) => void response.writeHead(200).end(Buffer.alloc(10_000_000, 120))),
      world(endless),
    ]);
    for (const { grant, attempted } of [large, poured]) {
      await grant();
      const { status, attempts } = await attempted(1);
      expect([status, attempts.length]).toEqual(["delivered", 1]);
    }
    await until(() => isClosed, 20_000, "the end of the connection");
    expect(written).toBeLessThan(50_000_000);
  });

  it("that closes the connection before or during its response is tried again", async () => {
    for (const cut of ["", "HTTP/1.1 200 OK\r\ncontent-le"]) {
      const { grant, attempted, receiver, secret } = await world((response, count) => {
        if (count > 1) return void response.writeHead(200).end();
        response.socket?.end(cut);
      });
      await grant();
      const { status, attempts } = await attempted(2);
      expect(attempts.map((one) => [one.status, one.error])).toEqual([
        [null, "unreachable"],
        [200, null],
      ]);
      expect(status).toBe("delivered");
      receiver.verifyAll(secret);
    }
  });

  it("that does not listen is reported as unreachable, and gets its messages when it listens again", async () => {
    const { grant, attempted, receiver, admin, webhookId, cron } = await world(ok);
    await receiver.close();
    await grant();
    const { attempts } = await attempted(2);
    for (const one of attempts) expect(one).toMatchObject({ status: null, error: "unreachable" });
    const back = await startReceiver(ok);
    receivers.push(back);
    expect((await admin("PATCH", `/webhooks/${webhookId}`, { url: back.url })).status).toBe(200);
    await cron();
    expect((await attempted(3)).status).toBe("delivered");
    expect(back.messages()).toHaveLength(1);
  });

  it("with an untrusted certificate gets no message", async () => {
    const { grant, attempted, receiver } = await world(ok, { isSelfSigned: true });
    await grant();
    const { status, attempts } = await attempted(2);
    expect(status).toBe("pending");
    for (const one of attempts) expect(one).toMatchObject({ status: null, error: "unreachable" });
    expect(receiver.connections()).toBeGreaterThanOrEqual(2);
    expect(receiver.attempts).toEqual([]);
  });

  it("that sends Retry-After gets the next attempt only after that time", async () => {
    const { grant, attempted, receiver } = await world(
      (response) => void response.writeHead(429, { "retry-after": "7200" }).end(),
    );
    await grant();
    const { status, nextAttemptAt, attempts } = await attempted(1);
    const waitMs = Date.parse(nextAttemptAt ?? "") - Date.parse(attempts[0]?.at ?? "");
    expect(status).toBe("pending");
    expect(waitMs).toBeGreaterThanOrEqual(7_200_000);
    expect(waitMs).toBeLessThan(7_300_000);
    await sleep(8_000);
    await server.cron();
    expect(receiver.attempts).toHaveLength(1);
  });

  it("that responds with 410 is disabled: its pending deliveries fail, and it gets no more messages", async () => {
    const { grant, attempted, receiver, admin, deliveries } = await world(
      (response) => void response.writeHead(410).end(),
    );
    await grant();
    const { attempts } = await attempted(1);
    expect(attempts[0]).toMatchObject({ status: 410 });
    await until(async () => (await deliveries()).every(({ status }) => status === "failed"), 10_000, "failed");
    const { body } = await admin("GET", "/webhooks?mode=live");
    expect(body.webhooks).toMatchObject([{ isEnabled: false }]);
    await grant("bob");
    await server.cron();
    expect([(await deliveries()).length, receiver.attempts.length]).toEqual([1, 1]);
  });

  it("that verifies messages rejects one that is altered or too old", async () => {
    const { grant, receiver, secret } = await world(ok);
    await grant();
    await until(() => receiver.attempts.length === 1, 20_000, "a message");
    const [attempt] = receiver.attempts;
    const { text, headers } = attempt ?? { text: "", headers: {} as Record<string, string> };
    const webhook = new Webhook(secret);
    expect(() => webhook.verify(text.replace("1000", "9000"), headers)).toThrow();
    const old = String(Number(headers["webhook-timestamp"]) - 3_600);
    expect(() => webhook.verify(text, { ...headers, "webhook-timestamp": old })).toThrow();
  });
});
