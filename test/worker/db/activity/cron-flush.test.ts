import { createScheduledController } from "cloudflare:test";
import { expect, it, vi } from "vitest";
import { readActivity } from "../../../../src/dashboard/figures/read.ts";
import { countActivity } from "../../../../src/db/count-activity.ts";
import worker from "../../../../src/index.ts";
import { bound, Clock, makeApp, makeCtx } from "../../../support/world.ts";

// The cron's parts would work on the environments of other tests.
vi.mock("../../../../src/cron.ts", () => ({ cronParts: [], scheduled: () => Promise.resolve() }));

it("the figures by day of a run of the cron are written at its end, even if its isolate serves no request", async () => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  const { environments } = await makeApp();
  const clock = new Clock();
  countActivity(environments.live, "granted", clock.ms, "tokens", 5_000);
  await worker.scheduled(createScheduledController(), bound());
  expect(await readActivity(makeCtx(environments.live, clock), "granted", clock.ms, 1)).toMatchObject([
    { unit: "tokens", days: [{ value: 5 }] },
  ]);
});
