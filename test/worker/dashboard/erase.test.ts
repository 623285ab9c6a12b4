import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { erasePerson } from "../../../src/erasure/start-erasure.ts";
import { browse } from "../../support/browse.ts";
import { ANA, CRM, DEVICE, erasureWorld, fillPerson, findInDatabase, TRACES } from "../../support/erasure.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { send } from "../../support/people.ts";
import { seedPerson } from "../../support/seed-rows.ts";
import { withoutTrigger } from "../../support/without-trigger.ts";
import { makeCtx } from "../../support/world.ts";

async function world() {
  const w = await erasureWorld();
  await fillPerson(w);
  const browser = browse(w.clock);
  await browser.signIn();
  const at = `/admin/apps/${w.app.appId}/live`;
  const textOf = async (answer: Response) => (await answer.text()).replaceAll("&amp;", "&").replaceAll("&quot;", '"');
  const read = async (path: string) => textOf(await browser.get(path.startsWith("/") ? path : `${at}/${path}`));
  const send = async (path: string, fields: Record<string, string>) =>
    browser.post(path.startsWith("/") ? path : `${at}/${path}`, { _form: await browser.formToken(), ...fields });
  const traces = () => findInDatabase(TRACES, w.app.environments.live.id);
  const form = {
    distinctId: ANA,
    distinctIds: JSON.stringify([ANA, DEVICE, CRM]),
    confirmation: ANA,
    reason: "request",
  };
  return { ...w, read, send, textOf, traces, form };
}

it("the form of an erasure shows a preview, and changes nothing unless the id is typed and the ids are those shown", async () => {
  const { read, send, textOf, traces, form } = await world();
  const before = await traces();
  expect(await read(`people?distinctId=${encodeURIComponent(ANA)}`)).toContain("people/erase?distinctId=");
  const shown = await read(`people/erase?distinctId=${encodeURIComponent(ANA)}`);
  for (const part of [ANA, DEVICE, CRM, form.distinctIds, "3 ids", "analytics", "balances", "Credits revoked"]) {
    expect(shown).toContain(part);
  }
  for (const [fields, status, says] of [
    [{ confirmation: `${ANA} ` }, 400, "type the id exactly"],
    [{ confirmation: "" }, 400, "type the id exactly"],
    [{ distinctIds: JSON.stringify([ANA, DEVICE]) }, 409, "ids have changed"],
    [{ distinctIds: "" }, 400, "distinctIds"],
    [{ distinctIds: "[" }, 400, "distinctIds"],
    [{ reason: "boredom" }, 400, "reason"],
  ] as const) {
    const refused = await send("people/erase", { ...form, ...fields });
    expect(refused.status).toBe(status);
    expect(await textOf(refused)).toContain(says);
  }
  expect(await traces()).toEqual(before);
});

it("the form of an erasure erases once, leads to a receipt without personal data, and the erasure can be lifted", async () => {
  const { read, send, traces, form, post } = await world();
  const confirmation = await read(`people/erase?distinctId=${encodeURIComponent(ANA)}`);
  const answer = await send("people/erase", form);
  expect(answer.status).toBe(303);
  const place = answer.headers.get("location") ?? "";
  expect(place).toMatch(/people\/erasures\/era_\w+$/);
  expect(await traces()).toEqual([]);
  const receipt = await read(place);
  for (const part of ["completed", "request", "Recoverable", "deleted", '/lift"']) expect(receipt).toContain(part);
  // The form and the receipt say the same about what can be undone.
  const undo = "Erased data cannot be restored. Nothing is stored for these ids until the erasure is lifted";
  for (const page of [confirmation, receipt]) expect(page).toContain(undo);
  for (const id of [ANA, CRM, DEVICE]) expect(receipt).not.toContain(id);
  expect(await read("audit")).toContain("people/erasures/era_");
  expect((await send("people/erase", form)).headers.get("location")).toBe(place);
  const consent = { distinctId: ANA, purpose: "ads", decision: "denied" };
  expect((await post("consent", consent)).status).toBe(409);
  expect((await send(`${place}/lift`, {})).status).toBe(303);
  expect(await read(place)).not.toContain('/lift"');
  expect((await post("consent", consent)).status).toBe(200);
});

it("the form of an erasure that is shown again has ticked only the ids that were ticked", async () => {
  const w = await erasureWorld();
  const identify = (device: string) =>
    send(w.call, w.app.keys.pk_live, [
      { event: "$identify", distinct_id: "eve", properties: { $anon_distinct_id: device } },
    ]);
  const [first, second] = ["0294685f-1b2c-7d3e-8f40-5a6b7c8d9e0f", DEVICE];
  await identify(first);
  const browser = browse(w.clock);
  await browser.signIn();
  const at = `/admin/apps/${w.app.appId}/live/people/erase`;
  const boxes = (page: string) =>
    [...page.matchAll(/<input type="checkbox" name="(block[^"]*)" value="yes"([^>]*)\/> Block <code>([^<]*)</g)].map(
      ([, name = "", attributes = "", id]) => ({ name, id, isTicked: attributes.includes("checked") }),
    );
  const page = await (await browser.get(`${at}?distinctId=eve`)).text();
  const [box] = boxes(page);
  expect(box).toMatchObject({ id: first, isTicked: false });
  const fields = {
    ...{
      _form: await browser.formToken(),
      distinctId: "eve",
      confirmation: "Eve",
      distinctIds: JSON.stringify(["eve", first]),
    },
    [box?.name ?? ""]: "yes",
  };
  // Another id comes before it meanwhile.
  await identify(second);
  const again = await browser.post(at, fields);
  expect(again.status).toBe(400);
  const shown = boxes(await again.text()).map(({ id, isTicked }) => [id, isTicked]);
  expect(shown.sort()).toEqual([
    [second, false],
    [first, true],
  ]);
});

it("a running erasure is shown as running, and cannot be lifted", async () => {
  const { app, clock, read, send, textOf } = await world();
  const input = { distinctId: ANA, dryRun: false, keepConsent: false };
  const { output } = await erasePerson(makeCtx(app.environments.live, clock), input, { pages: 1, rows: 1 });
  const place = `people/erasures/${output.erasureId}`;
  const receipt = await read(place);
  expect(receipt).toContain("running");
  expect(receipt).not.toContain('/lift"');
  const refused = await send(`${place}/lift`, {});
  expect([refused.status, await textOf(refused)]).toEqual([409, expect.stringContaining("still running")]);
  expect(await read("people/erasures/era_none")).toContain("no such erasure");
});

it("the form of an erasure never erases an id that was added after it was shown, even if it holds only a hash of many ids", async () => {
  const { app, clock } = await erasureWorld();
  const { live } = app.environments;
  const ids = [ANA, ...Array.from({ length: 700 }, (_, n) => `id-${n}-${"x".repeat(150)}`)];
  await seedPerson(live, {}, ids);
  const hook = { late: async () => {} };
  const browser = browse(clock, { DB: hookedD1(env.DB, () => hook.late()) });
  await browser.signIn();
  const at = `/admin/apps/${app.appId}/live/people/erase`;
  const page = await (await browser.get(`${at}?distinctId=${encodeURIComponent(ANA)}`)).text();
  const shown = /name="shown" value="([^"]+)"/.exec(page)?.[1] ?? "";
  expect(shown).not.toBe("");
  const fields = { _form: await browser.formToken(), distinctId: ANA, shown, confirmation: ANA };
  // The id is added right before each of the form's trips in turn.
  for (let trip = 1, isErased = false; !isErased; trip++) {
    let trips = 0;
    const claim = env.DB.prepare(
      `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms, last_seen_at_ms,
         claimed_by, claimed_via, claimed_at_ms, claim_is_verified, claim_version)
       VALUES (CAST(? AS INTEGER), 'late', 0, 1, 1, 1, ?, 'identify', 1, 1, 1)`,
    ).bind(live.id, ANA);
    hook.late = async () => {
      trips++;
      if (trips === trip) await claim.run();
    };
    const { status } = await browser.post(at, fields);
    hook.late = async () => {};
    isErased = status === 303;
    const late = await env.DB.prepare(
      "SELECT count(*) AS n FROM distinct_ids WHERE environment_id = ? AND distinct_id = 'late'",
    )
      .bind(live.id)
      .first("n");
    expect([trip, status, late]).toEqual([trip, isErased ? 303 : 409, trips >= trip ? 1 : 0]);
    await withoutTrigger(
      "distinct_ids_kept",
      env.DB.prepare("DELETE FROM distinct_ids WHERE environment_id = ? AND distinct_id = 'late'").bind(live.id),
    );
    if (isErased) expect(trip).toBeGreaterThan(3);
  }
}, 60_000);
