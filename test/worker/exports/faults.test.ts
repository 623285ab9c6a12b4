import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { ExportDocument } from "../../../src/api/exports/export-document.ts";
import { auditOf, linkTo, open, readAll, readDocument, withoutOpenings } from "../../support/exports.ts";
import { FAULTS, type FaultPlan, faultyD1 } from "../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import {
  seedAnalytics,
  seedBalances,
  seedConsents,
  seedEntries,
  seedPerson,
  seedUsage,
} from "../../support/seed-rows.ts";
import { Clock, makeApp, type TestApp } from "../../support/world.ts";

afterAll(expectLedgerInvariants);
// Each test downloads a document of many pages as often as the download has trips.
vi.setConfig({ testTimeout: 120_000 });

// Retries do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  vi.spyOn(console, "error").mockImplementation(() => {});
});

async function seed(app: TestApp, events: number): Promise<void> {
  const { live } = app.environments;
  await seedPerson(live, { properties: '{"plan":"pro"}' }, ["ana", "device"]);
  for (const id of ["ana", "device"]) {
    const texts = Array.from({ length: events }, (_, index) => `{"index":${index}}`);
    await seedAnalytics(live, id, [...texts, `{"heavy":"${"x".repeat(5_000)}"}`]);
    await seedUsage(live, id, events);
    await seedConsents(live, id, 3);
  }
  const [balanceId = ""] = await seedBalances(live, "ana", events > 1_000 ? 501 : 2);
  await seedEntries(live, "ana", balanceId, 5);
}

async function attempt(app: TestApp, plan: FaultPlan | null) {
  const clock = new Clock();
  const link = await linkTo(app, "ana", clock);
  const faulty = faultyD1(env.DB);
  faulty.plan(plan);
  const auditedBefore = (await auditOf(app, "ana")).length;
  const response = await open(link, clock, faulty.d1);
  const text = await readAll(response);
  const trips = faulty.trips();
  return { status: response.status, text, trips, audit: (await auditOf(app, "ana")).slice(auditedBefore) };
}

/** The document of a complete response, or null. */
function wholeOf(status: number, text: string): ExportDocument | null {
  if (status !== 200) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

describe.each([
  { name: "a document with a few heavy rows", events: 40 },
  // The lists of two ids take two pages, of 2,000 rows.
  { name: "a document of many pages", events: 1_020 },
])("$name", ({ events }) => {
  let app: TestApp;
  let expected: ReturnType<typeof withoutOpenings>;
  let trips = 0;
  beforeAll(async () => {
    app = await makeApp();
    await seed(app, events);
    const flawless = await attempt(app, null);
    expected = withoutOpenings(readDocument(flawless.text));
    trips = flawless.trips;
  });

  it.each(FAULTS)(
    "is complete, or fails with 503, or does not parse, whichever trip to D1 fails: %s",
    async (fault) => {
      const expectedText = JSON.stringify(expected);
      for (let at = 1; at <= trips; at++) {
        for (const persists of [false, true]) {
          const { status, text, audit } = await attempt(app, { fault, at, persists });
          const mended = fault !== "overloaded" && !persists;
          const word = `${fault} at ${at} of ${trips}, ${persists ? "for good" : "once"}`;
          const document = wholeOf(status, text);
          expect(document !== null, word).toBe(mended);
          // The first document was checked against the schema. An equal one needs no further check.
          if (document !== null) {
            const content = withoutOpenings(document);
            if (JSON.stringify(content) !== expectedText) expect(content, word).toEqual(expected);
          }
          if (!mended) expect([200, 503], word).toContain(status);
          if (mended) expect(audit, word).toEqual(["opened", "completed"]);
          expect(audit.length, word).toBeLessThanOrEqual(2);
        }
      }
    },
  );
});
