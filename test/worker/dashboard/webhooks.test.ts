import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { DAY_MS } from "../../../src/lib/time.ts";
import { deliverDue } from "../../../src/webhooks/deliver-due.ts";
import { browse } from "../../support/browse.ts";
import { runPart } from "../../support/cron.ts";
import { receiverWorld } from "../../support/webhooks.ts";

const url = "https://receiver.example/hook?a=b";

async function world(...args: Parameters<typeof receiverWorld>) {
  const w = await receiverWorld(...args);
  const browser = browse(w.clock, {}, w.deliver);
  await browser.signIn();
  const at = `/admin/apps/${w.app.appId}/live/webhooks`;
  const read = async (path = "") => {
    const answer = await browser.get(at + path);
    const text = (await answer.text()).replaceAll("&amp;", "&").replaceAll("&quot;", '"');
    return { status: answer.status, text };
  };
  const send = async (path: string, fields: Record<string, string> = {}) =>
    browser.post(at + path, { _form: await browser.formToken(), ...fields });
  const rows = async () =>
    (await w.admin("GET", "/webhooks?mode=live")).body.webhooks as { webhookId: string; isEnabled: boolean }[];
  const acts = async () =>
    (await w.admin("GET", "/audit")).body.entries.map(({ action }: { action: string }) => action);
  return { ...w, at, browser, read, send, rows, acts };
}

const secretIn = (text: string): string | undefined =>
  /whsec_[A-Za-z0-9+/]{43}=/.exec(text.replaceAll("&#39;", "'"))?.[0];

it("the pages of webhooks create an endpoint once even if the form is sent twice, and show its secret once", async () => {
  const w = await world();
  expect((await w.read()).text).toContain("No endpoints yet");
  const form = { nonce: "n", url, types: "credits.*, usage.recorded", description: "" };
  const answer = await w.send("", form);
  const place = answer.headers.get("location") ?? "";
  expect([answer.status, place]).toEqual([
    303,
    expect.stringMatching(/webhooks\/whk_[0-9A-Za-z]{22}\?notice=created$/),
  ]);
  const [path = ""] = place.slice(w.at.length).split("?");
  const first = await w.read(path);
  const secret = secretIn(first.text);
  expect(secret).toBeDefined();
  expect(secretIn((await w.read(path)).text)).toBeUndefined();
  const again = await w.send("", form);
  expect([again.status, again.headers.get("location")]).toEqual([303, place]);
  expect(secretIn((await w.read(path)).text)).toBe(secret);
  expect(await w.rows()).toMatchObject([{ url, types: ["credits.*", "usage.recorded"], description: null }]);
  const list = (await w.read()).text;
  for (const part of [url, "credits.* usage.recorded", "nothing sent yet"]) expect(list).toContain(part);
  const [webhook] = await w.rows();
  expect(`/${webhook?.webhookId}`).toBe(path);
  expect(await w.acts()).toEqual(["webhook.created"]);
});

it("the pages of webhooks explain an invalid URL, reject the eleventh endpoint, and then write nothing", async () => {
  const w = await world();
  const refused = await w.send("", { nonce: "n", url: "https://127.0.0.1/", types: "credits.*" });
  expect(refused.status).toBe(400);
  const text = await refused.text();
  for (const part of ["field-error", "not a loopback or private one", 'value="credits.*"'])
    expect(text).toContain(part);
  expect(await w.rows()).toEqual([]);
  for (let i = 0; i < 10; i++) await w.create();
  const eleventh = await w.send("", { nonce: "m", url });
  expect(eleventh.status).toBe(400);
  expect(await eleventh.text()).toContain("may have 10 endpoints");
  expect(await w.rows()).toHaveLength(10);
});

it("the pages of webhooks escape an endpoint's URL and description", async () => {
  const w = await world();
  const description = `"><script>alert(1)</script><img src=x onerror=alert(1)>`;
  const { webhookId } = await w.create({ url: `https://receiver.example/"><script>x</script>`, description });
  for (const path of ["", `/${webhookId}`, `/${webhookId}/delete`, `/${webhookId}/rotate`]) {
    const page = await (await w.browser.get(w.at + path)).text();
    expect(page, path).not.toMatch(/<script>|<img/);
    expect(page, path).toContain("&lt;script&gt;");
  }
});

it("the pages of webhooks change only the fields that differ, disable and enable, and change nothing if a field is rejected", async () => {
  const w = await world();
  const { webhookId } = await w.create({ types: ["credits.*"], description: "Mine" });
  const path = `/${webhookId}`;
  const page = (await w.read(path)).text;
  for (const part of ['value="credits.*"', 'value="Mine"']) expect(page).toContain(part);
  const form = { url, types: "", description: "Ours", isEnabled: "no" };
  const refused = await w.send(path, { ...form, url: "ftp://example.com" });
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("field-error");
  expect(await w.rows()).toMatchObject([{ types: ["credits.*"], description: "Mine", isEnabled: true }]);
  expect((await w.send(path, form)).headers.get("location")).toBe(`${w.at}${path}?notice=changed`);
  expect(await w.rows()).toMatchObject([{ url, types: null, description: "Ours", isEnabled: false }]);
  const test = await w.send(`${path}/test`);
  expect([test.status, (await test.text()).includes("The endpoint is disabled")]).toEqual([400, true]);
  await w.send(path, { ...form, isEnabled: "yes" });
  const { entries } = (await w.admin("GET", "/audit")).body;
  expect(entries[0].details).toEqual({ mode: "live", changed: ["isEnabled"] });
});

it("the pages of webhooks rotate a secret once even if the confirmation is sent twice, and delete after a confirmation", async () => {
  const w = await world();
  const { webhookId, secret } = await w.create();
  const path = `/${webhookId}`;
  const confirm = (await w.read(`${path}/rotate`)).text;
  const nonce = /name="nonce" value="([^"]+)"/.exec(confirm)?.[1] ?? "";
  const sealed = () =>
    env.DB.prepare("SELECT secret, previous_secret FROM webhook_endpoints WHERE id = ?").bind(webhookId).first();
  const before = await sealed();
  for (let i = 0; i < 2; i++) {
    const { status, headers } = await w.send(`${path}/rotate`, { nonce });
    expect([status, headers.get("location")]).toEqual([303, `${w.at}${path}?notice=rotated`]);
  }
  expect((await sealed())?.previous_secret).toBe(before?.secret);
  const shown = secretIn((await w.read(path)).text);
  expect(shown).toBeDefined();
  expect(shown).not.toBe(secret);
  expect((await w.read(`${path}/delete`)).text).toContain("This cannot be undone.");
  expect(await w.rows()).toHaveLength(1);
  expect((await w.send(`${path}/delete`)).headers.get("location")).toBe(`${w.at}?notice=deleted`);
  expect((await w.send(`${path}/delete`)).status).toBe(404);
  expect(await w.rows()).toEqual([]);
  expect(await w.acts()).toEqual(["webhook.deleted", "webhook.rotated", "webhook.created"]);
});

it("the pages of webhooks show deliveries by status and page with every attempt and the message, and resend them", async () => {
  let status = 500;
  const w = await world(() => status);
  const { webhookId } = await w.create();
  const path = `/${webhookId}`;
  expect((await w.read(path)).text).toContain("No deliveries.");
  const { messageId } = (await w.admin("POST", `/webhooks${path}/test`)).body;
  await w.settled();
  const { text } = await w.read(path);
  for (const part of ["purser.test", messageId, "It answered 500.", w.received[0]?.text ?? "none"])
    expect(text).toContain(part);
  expect((await w.read(`${path}?status=delivered`)).text).toContain("No deliveries.");
  expect((await w.read(`${path}?status=pending`)).text).toContain(messageId);
  expect((await w.read(`${path}?status=lost`)).status).toBe(400);
  status = 200;
  const resent = await w.send(`${path}/resend`, { messageId });
  expect([resent.status, resent.headers.get("location")]).toEqual([303, `${w.at}${path}?notice=resent`]);
  await w.settled();
  const delivered = (await w.read(`${path}?status=delivered`)).text;
  for (const part of [messageId, "It answered 500.", ": 200"]) expect(delivered).toContain(part);
  expect((await w.send(`${path}/resend`, { messageId: "msg_none" })).status).toBe(404);
  const late = await w.send(`${path}/replay`, { from: "soon", to: "" });
  expect([late.status, (await late.text()).includes("field-error")]).toEqual([400, true]);
  const none = await w.send(`${path}/replay`, { from: "2036-01-15T00:00", to: "" });
  expect(none.headers.get("location")).toBe(`${w.at}${path}?notice=none-replayed`);
  const replayed = await w.send(`${path}/replay`, { from: "2026-01-15T00:00", to: "" });
  expect([replayed.status, replayed.headers.get("location")]).toEqual([303, `${w.at}${path}?notice=replayed`]);
  await w.settled();
  const again = (await w.read(`${path}?status=delivered`)).text;
  expect([delivered.split(": 200").length - 1, again.split(": 200").length - 1]).toEqual([1, 2]);
  expect(await w.acts()).toEqual(["webhook.replayed", "webhook.resent", "webhook.tested", "webhook.created"]);
  for (let i = 0; i < 50; i++) expect((await w.admin("POST", `/webhooks${path}/test`)).status).toBe(200);
  await w.settled();
  const newest = (await w.read(path)).text;
  expect(newest).not.toContain(messageId);
  const older = /href="([^"]+cursor=[^"]+)">Older deliveries/.exec(newest)?.[1] ?? "";
  expect((await w.read(older.slice(w.at.length))).text).toContain(messageId);
});

it("the pages of webhooks sort deliveries and save them as a file without the messages, and resend those that are ticked", async () => {
  const w = await world(() => 500);
  const { webhookId } = await w.create();
  const path = `/${webhookId}`;
  for (let i = 0; i < 3; i++) {
    await w.send(`${path}/test`);
    await w.settled();
    w.clock.advance(1_000);
  }
  const ids = (await w.deliveries(webhookId)).map(({ messageId }: { messageId: string }) => messageId);
  const oldest = (await w.read(`${path}?sort=messageId&order=asc`)).text;
  expect([...oldest.matchAll(/Select (msg_\w+)/g)].map(([, id]) => id)).toEqual(ids.toReversed());
  const { status, text } = await w.read(`${path}/deliveries.csv?status=pending`);
  const [head, ...lines] = text.trimEnd().split("\r\n");
  expect([status, head?.replace("\ufeff", "")]).toEqual([
    200,
    "messageId,type,timestamp,status,attempts,lastAttemptAt,lastStatus,nextAttemptAt",
  ]);
  expect(lines.map((line) => line.split(",")[0])).toEqual(ids.map((id: string) => `"${id}"`));
  expect(lines[0]).toMatch(/^"msg_\w+","purser.test",.*,"pending",\d,"2026-01-15.*",500,"2026-01-15/);
  expect((await w.read(`${path}/deliveries.csv?status=delivered`)).text.trimEnd().split("\r\n")).toHaveLength(1);
  // The checkboxes are in the table, and belong to the form below it.
  const page = (await w.read(path)).text;
  expect(page).toContain(`form="resend" name="message ${ids[0]}"`);
  const before = w.received.length;
  const ticked = await w.send(`${path}/resend`, { [`message ${ids[0]}`]: "yes", [`message ${ids[2]}`]: "yes" });
  expect([ticked.status, ticked.headers.get("location")]).toEqual([303, `${w.at}${path}?notice=resent-all`]);
  await w.settled();
  expect(w.received).toHaveLength(before + 2);
  const none = await w.send(`${path}/resend`);
  expect([none.status, (await none.text()).includes("tick the messages")]).toEqual([400, true]);
});

it("the pages of webhooks test, resend and replay once for each form, even if a form is sent several times at once", async () => {
  const w = await world();
  const { webhookId } = await w.create();
  const path = `/${webhookId}`;
  const page = (await w.read(path)).text;
  const nonces = [...page.matchAll(/name="nonce" value="([^"]+)"/g)].map(([, nonce]) => nonce);
  expect(new Set(nonces).size).toBe(nonces.length);
  const twice = async (act: string, fields: Record<string, string>) => {
    await Promise.all([w.send(`${path}/${act}`, fields), w.send(`${path}/${act}`, fields)]);
    await w.settled();
    w.clock.advance(40_000);
    expect((await w.send(`${path}/${act}`, fields)).status).toBe(303);
    await w.settled();
  };
  await twice("test", { nonce: "a" });
  expect(w.received).toHaveLength(1);
  const [{ messageId }] = await w.deliveries(webhookId);
  await twice("resend", { nonce: "b", messageId });
  expect(w.received).toHaveLength(2);
  await twice("resend", { nonce: "c", messageId });
  expect(w.received).toHaveLength(3);
  const span = { nonce: "d", from: "2026-01-15T00:00", to: "" };
  await w.send(`${path}/replay`, span);
  await runPart(deliverDue, w.root());
  expect(w.received).toHaveLength(4);
  w.clock.advance(40_000);
  await w.send(`${path}/replay`, span);
  await runPart(deliverDue, w.root());
  expect(w.received).toHaveLength(4);
  expect(await w.acts()).toEqual([
    "webhook.replayed",
    ...["webhook.resent", "webhook.resent", "webhook.tested", "webhook.created"],
  ]);
});

it("a page that is shown again after one form's rejection lets each of its forms take effect", async () => {
  const w = await world();
  const { webhookId } = await w.create();
  const path = `/${webhookId}`;
  const rejected = await w.send(`${path}/replay`, { nonce: "n", from: "soon", to: "" });
  expect(rejected.status).toBe(400);
  const nonces = [...(await rejected.text()).matchAll(/name="nonce" value="([^"]+)"/g)].map(([, nonce]) => nonce);
  expect(new Set(nonces)).toEqual(new Set(["n"]));
  await w.send(`${path}/test`, { nonce: "n" });
  await w.settled();
  expect(w.received).toHaveLength(1);
  w.clock.advance(40_000);
  await w.send(`${path}/replay`, { nonce: "n", from: "2026-01-15T00:00", to: "" });
  await runPart(deliverDue, w.root());
  expect(w.received).toHaveLength(2);
});

it("the pages of webhooks show why an endpoint is disabled: by hand, by 410, or after days of failures", async () => {
  let status = 410;
  const w = await world(() => status);
  const { webhookId } = await w.create();
  const path = `/${webhookId}`;
  await w.send(`${path}/test`);
  await w.settled();
  // The list below decides nothing.
  for (const query of ["", "?status=delivered"])
    expect((await w.read(path + query)).text).toContain("because it answered 410 (gone) at 2026-01-15");
  await w.admin("PATCH", `/webhooks${path}`, { isEnabled: true });
  await w.admin("PATCH", `/webhooks${path}`, { isEnabled: false });
  expect((await w.read(path)).text).toContain("It was switched off here or by the API.");
  await w.admin("PATCH", `/webhooks${path}`, { isEnabled: true });
  status = 500;
  await w.send(`${path}/test`);
  await w.settled();
  w.clock.advance(6 * DAY_MS);
  await runPart(deliverDue, w.root());
  await w.browser.signIn();
  expect((await w.read(path)).text).toContain("because every attempt since 2026-01-15");
});

it("the pages of webhooks keep the first 200 characters of a failed answer, escaped, without keys, and not in the API", async () => {
  const key = (await receiverWorld()).app.keys.sk_live;
  const answers = [new Response(`<b>no</b> ${key} ${"é".repeat(500)}`, { status: 500 }), new Response("fine")];
  const w = await world(() => answers.shift() ?? new Response("unread", { status: 200 }));
  const { webhookId } = await w.create();
  await w.admin("POST", `/webhooks/${webhookId}/test`);
  await w.settled();
  const { text } = await w.read(`/${webhookId}`);
  expect(text).toContain("&lt;b&gt;no&lt;/b&gt; ");
  expect(text).not.toContain(key);
  const answer = /<code class="answer">([^<]*)</.exec(text)?.[1] ?? "";
  expect(answer).toMatch(/é{20}$/);
  expect(answer.length).toBeLessThan(260);
  expect(text).not.toContain("fine");
  const [{ attempts }] = await w.deliveries(webhookId);
  expect(Object.keys(attempts[0])).toEqual(["at", "durationMs", "status", "error"]);
});

it("the pages of webhooks say from when to when an endpoint was off, and that nothing of that time was written", async () => {
  const w = await world();
  const { webhookId } = await w.create();
  const path = `/${webhookId}`;
  expect((await w.read(path)).text).not.toContain("never written");
  await w.admin("PATCH", `/webhooks/${webhookId}`, { isEnabled: false });
  // A change that does not switch it keeps the time.
  w.clock.advance(60_000);
  await w.admin("PATCH", `/webhooks/${webhookId}`, { isEnabled: false, description: "x" });
  const off = (await w.read(path)).text.replace(/\s+/g, " ");
  const from = new Date(w.clock.ms - 60_000).toISOString().slice(0, 16).replace("T", " ");
  expect(off).toMatch(
    new RegExp(`Off since</dt><dd>${from}[^<]* UTC until now: messages about what happened then were never written`),
  );
  w.clock.advance(60_000);
  await w.admin("PATCH", `/webhooks/${webhookId}`, { isEnabled: true });
  const until = new Date(w.clock.ms).toISOString().slice(0, 16).replace("T", " ");
  const on = (await w.read(path)).text.replace(/\s+/g, " ");
  expect(on).toMatch(new RegExp(`Last off</dt><dd>${from}[^<]* to ${until}[^<]* UTC: messages`));
  expect(on).toContain("a replay brings nothing of that time");
});

it("the pages of webhooks find the last success behind more failures than the newest messages", async () => {
  let status = 200;
  const w = await world(() => status);
  const { webhookId } = await w.create();
  await w.admin("POST", `/webhooks/${webhookId}/test`);
  await w.settled();
  status = 410;
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
       INSERT INTO webhook_deliveries (endpoint_id, message_id, status, next_attempt_at_ms, due_at_ms, attempts)
       SELECT ?, 'msg_z' || i, 'failed', 1, 1, '[{"at":"2026-01-16T00:00:00.000Z","status":500,"durationMs":1,"error":null}]' FROM n`,
  )
    .bind(webhookId)
    .run();
  const { text } = await w.read(`/${webhookId}`);
  expect(text).toContain("The latest attempt of 50 of its newest 50 messages failed.");
  expect(text).not.toContain("none among its newest");
});

it("the page of a webhook endpoint counts its last success from real time under a test clock", async () => {
  const w = await world();
  const { webhookId } = await w.create({ mode: "test" });
  const now = new Date(w.clock.ms + 5 * DAY_MS).toISOString();
  expect((await w.admin("PUT", "/clock", { now })).status).toBe(200);
  await w.admin("POST", `/webhooks/${webhookId}/test`);
  await w.settled();
  const page = await w.browser.get(`${w.at.replace("/live/", "/test/")}/${webhookId}`);
  expect(await page.text()).toMatch(/Last success<\/dt><dd><time[^>]*>just now</);
});

it("the pages of webhooks do not find an endpoint of another application, or of the other mode", async () => {
  const other = await receiverWorld();
  const w = await world();
  const foreign = await other.create();
  const test = await w.create({ mode: "test" });
  for (const { webhookId } of [foreign, test]) {
    for (const path of ["", "/rotate", "/delete"]) {
      expect((await w.read(`/${webhookId}${path}`)).status).toBe(404);
    }
    for (const path of ["", "/rotate", "/delete", "/test", "/resend", "/replay"]) {
      expect((await w.send(`/${webhookId}${path}`, { url, messageId: "msg_x" })).status).toBe(404);
    }
  }
  expect((await other.admin("GET", "/webhooks?mode=live")).body.webhooks).toHaveLength(1);
  expect((await w.admin("GET", "/webhooks?mode=test")).body.webhooks).toHaveLength(1);
  expect(await w.acts()).toEqual(["webhook.created"]);
});
