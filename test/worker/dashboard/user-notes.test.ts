import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { openDashboard, queryOf, tableRows, textOf } from "../../support/browse.ts";
import { send } from "../../support/people.ts";
import { Clock, makeApp, makeClient, makeOpenAmountPack } from "../../support/world.ts";

const FORM = "users/notes";

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const client = makeClient(clock);
  const post = (path: string, body: object) => client("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
  await makeOpenAmountPack(app.appId, "Wallet", "tokens");
  await post("credits/grant", { userId: "ada", packId: "Wallet", quantity: 5 });
  const dashboard = await openDashboard(app, clock);
  const environmentId = app.environments.live.id;
  const stored = async () => {
    const sql = `SELECT user_id, text, actor FROM user_notes WHERE environment_id = ? ORDER BY created_at_ms, id`;
    return (await env.DB.prepare(sql).bind(environmentId).all()).results;
  };
  const audit = async () => {
    const sql = `SELECT action, target, details, account_id FROM admin_audit WHERE app_id = ? AND action LIKE 'note.%' ORDER BY seq`;
    return (await env.DB.prepare(sql).bind(app.appId).all<Record<string, unknown>>()).results;
  };
  const read = async (path: string) => (await dashboard.read(path)).text;
  const rows = async (userId = "ada") => tableRows(await read(`users${queryOf({ userId })}`), "Notes");
  let nonces = 0;
  const add = (text: string, more: Record<string, string> = {}) =>
    dashboard.send(FORM, { userId: "ada", text, nonce: `n${nonces++}`, ...more });
  const noteIdOf = async (userId = "ada") =>
    /notes\/delete\?userId=[^"]*&noteId=(note_\w+)"/.exec(await read(`users${queryOf({ userId })}`))?.[1] ?? "";
  const exported = async (distinctId: string) => {
    const { body: link } = await post("export-person", { distinctId });
    return (await client("GET", link.downloadUrl)).body.person;
  };
  return { app, clock, client, post, dashboard, stored, audit, read, rows, add, noteIdOf, exported };
}

it("a note is shown on the user's page with who wrote it and when, newest first, and can be deleted", async () => {
  const { clock, dashboard, read, rows, add, audit, noteIdOf } = await world();
  expect(await read("users?userId=ada")).toContain(">Notes<");
  const answer = await add("  Pays by invoice.\r\nCall first. ");
  expect(answer.status).toBe(303);
  expect(answer.headers.get("location")).toBe(`${dashboard.at}/users?userId=ada&notice=note-added#notes`);
  clock.advance(60_000);
  await add("Second <b>");
  expect(await read("users?userId=ada")).toContain("Notes (2)");
  expect(await read("users?userId=ada")).toContain("Pays by invoice.\nCall first.");
  const [second, first] = await rows();
  expect(second).toMatch(/^Second &lt;b&gt; dashboard .*Delete$/);
  expect(first).toMatch(/^Pays by invoice. Call first. dashboard 1 minute ago Delete$/);
  const noteId = await noteIdOf();
  const asked = await read(`${FORM}/delete${queryOf({ userId: "ada", noteId })}`);
  expect(asked).toContain("Second &lt;b&gt;");
  expect(await rows()).toHaveLength(2);
  await dashboard.send(`${FORM}/delete`, { userId: "ada", noteId });
  await dashboard.send(`${FORM}/delete`, { userId: "ada", noteId });
  expect(await rows()).toEqual([first]);
  const entries = await audit();
  expect(entries.map(({ action }) => action)).toEqual(["note.created", "note.created", "note.deleted"]);
  expect(entries[2]).toMatchObject({ target: noteId, details: '{"mode":"live"}' });
  expect(new Set(entries.map(({ account_id }) => account_id)).size).toBe(1);
  expect(JSON.stringify(entries)).not.toContain("invoice");
  expect(await read("users?userId=ada")).toContain("Note deleted");
});

it("a form of a note that is sent twice writes one note, also at the same time and after the note was deleted", async () => {
  const { clock, dashboard, add, stored, audit, noteIdOf } = await world();
  await Promise.all([1, 2, 3].map(() => add("Once", { nonce: "same" })));
  expect(await stored()).toHaveLength(1);
  await dashboard.send(`${FORM}/delete`, { userId: "ada", noteId: await noteIdOf() });
  clock.advance(1);
  expect((await add("Once", { nonce: "same" })).status).toBe(303);
  expect(await stored()).toEqual([]);
  expect((await audit()).map(({ action }) => action)).toEqual(["note.created", "note.deleted"]);
});

it("a note is rejected when it is empty, too long, has a NUL, or would be one too many; a rejected form keeps its text", async () => {
  const { dashboard, add, stored } = await world();
  for (const [text, says] of [
    [" \r\n", "must not be empty"],
    ["x".repeat(1_001), "at most 1000 code points"],
    ["a\u0000b", "must not contain NUL"],
  ] as const) {
    const answer = await add(text);
    expect(answer.status).toBe(400);
    expect(await textOf(answer)).toMatch(new RegExp(`${says}[\\s\\S]*<textarea[^>]*aria-invalid`));
  }
  expect((await dashboard.send(FORM, { userId: "", text: "x" })).status).toBe(400);
  await Promise.all(Array.from({ length: 39 }, (_, n) => add(`Note ${n}`)));
  const last = await Promise.all([add("Fortieth"), add("Fortieth"), add("Fortieth")]);
  expect(last.map(({ status }) => status).sort()).toEqual([303, 400, 400]);
  expect(await stored()).toHaveLength(40);
  const rejected = await textOf(await add("One more"));
  expect(rejected).toContain("a user has at most 40 notes");
  expect(rejected).toContain(">One more</textarea>");
});

it("a key in a note is replaced by its hint, and invisible characters are shown as escapes", async () => {
  const { app, add, stored, read } = await world();
  await add(`Sent ${app.keys.sk_live} by mail \u202e`);
  const [note] = await stored();
  expect(JSON.stringify(note)).not.toContain(app.keys.sk_live);
  expect(note?.text).toMatch(/^Sent sk_live_….{4} by mail/);
  expect(await read("users?userId=ada")).toContain("\\u{202e}");
});

it("notes of another environment are neither shown nor deleted, and without a session nothing is written", async () => {
  const { app, dashboard, add, stored, noteIdOf } = await world();
  await add("Of live mode");
  const noteId = await noteIdOf();
  const test = `/admin/apps/${app.appId}/test`;
  const other = `/admin/apps/${(await makeApp()).appId}/live`;
  for (const at of [test, other]) {
    await dashboard.send(`${at}/${FORM}/delete`, { userId: "ada", noteId });
    const asked = await dashboard.read(`${at}/${FORM}/delete${queryOf({ userId: "ada", noteId })}`);
    expect(asked.text).not.toContain("Of live mode");
  }
  await dashboard.send(`${FORM}/delete`, { userId: "bob", noteId });
  expect(await stored()).toHaveLength(1);
  const formless = await dashboard.browser.post(`${dashboard.at}/${FORM}`, { userId: "ada", text: "x" });
  expect(formless.status).toBe(403);
  dashboard.browser.setCookie("");
  await dashboard.browser.post(`${dashboard.at}/${FORM}`, { userId: "ada", text: "x" });
  expect(await stored()).toHaveLength(1);
});

it("the person's export has the notes on all its ids without who wrote them, and an erasure deletes them for good", async () => {
  const { app, client, clock, post, add, stored, exported, read } = await world();
  const createdAt = new Date(clock.ms).toISOString();
  await add('Says "no"');
  await send(client, app.keys.sk_live, [
    { event: "$create_alias", distinct_id: "ada", properties: { alias: "crm-7" } },
  ]);
  await add("By the other id", { userId: "crm-7" });
  await add("Somebody else", { userId: "bob" });
  expect((await exported("ada")).notes).toEqual([
    { distinctId: "ada", text: 'Says "no"', createdAt },
    { distinctId: "crm-7", text: "By the other id", createdAt },
  ]);
  // An id with nothing but a note is a person, and has a page.
  expect(await exported("bob")).toMatchObject({ personId: null, notes: [{ text: "Somebody else" }] });
  expect(await read("users?userId=bob")).toContain("Somebody else");
  const dry = await post("erase-person", { distinctId: "ada", dryRun: true });
  expect(dry.body.erased.notes).toBe(2);
  await post("erase-person", { distinctId: "ada" });
  expect((await stored()).map(({ user_id }) => user_id)).toEqual(["bob"]);
  const late = await add("After the erasure");
  expect(late.status).toBe(409);
  expect(await stored()).toHaveLength(1);
  expect(await exported("ada")).toBeNull();
});
