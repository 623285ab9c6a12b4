import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { linkTo, open, readAll } from "../../../support/exports.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { seedUsage } from "../../../support/seed-rows.ts";
import { withoutTrigger } from "../../../support/without-trigger.ts";

const EVENT_COUNT = 4_500;

it("a member's download never completes if its payer is erased while it streams, but does if another payer is", async () => {
  const { app, clock, use, grant, callOk } = await limitsWorld({ limits: [] });
  const { live } = app.environments;
  await grant("other");
  await use(1, { memberId: "bob" });
  await seedUsage(live, "u", EVENT_COUNT, 2);
  await withoutTrigger(
    "usage_events_keep_member",
    env.DB.prepare("UPDATE usage_events SET member_number = 1 WHERE environment_id = ? AND member_number IS NULL").bind(
      live.id,
    ),
  );
  const readWhileErased = async (distinctId: string) => {
    let [isOpen, isErased] = [false, false];
    const d1 = hookedD1(env.DB, async () => {
      if (!isOpen || isErased) return;
      for (let status = ""; status !== "completed"; ) {
        ({ status } = await callOk("POST", "/erase-person", { distinctId }));
      }
      isErased = true;
    });
    const response = await open(await linkTo(app, "bob", clock), clock, d1);
    isOpen = true;
    const text = await readAll(response);
    expect(isErased).toBe(true);
    return text;
  };
  expect(JSON.parse(await readWhileErased("other")).events.metering).toHaveLength(EVENT_COUNT);
  const cut = await readWhileErased("u");
  expect(() => JSON.parse(cut)).toThrow();
});
