import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ClaimsModel, type ModelPerson } from "../support/claims-model.ts";
import { type ClaimsDocument, type ClaimsEvent, makeClaimsWorld } from "../support/claims-world.ts";
import { RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";

const HISTORIES = soakCount(3, 20);

const USERS = ["ana", "user_bob"];
const DEVICES = [
  "0190d6a1-0000-7000-8000-000000000001",
  "0190d6a1-0000-7000-8000-000000000002",
  "0190d6a1-0000-7000-8000-000000000003",
  "17f3e1b2c3d4e5-0a1b2c3d4e5f6-34567890-1fa400-17f3e1b2c3d4e6",
];
const SHARED = ["anonymous", ' "NULL" '];
const IDS = [...USERS, ...DEVICES, ...SHARED];

const id = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...USERS) },
  { weight: 8, arbitrary: fc.constantFrom(...DEVICES) },
  { weight: 1, arbitrary: fc.constantFrom(...SHARED) },
);
const names = fc.uniqueArray(fc.constantFrom("city", "plan", "tone"), { maxLength: 2 });
const common = { id, set: names, setOnce: names, unset: names };
const isPersonless = fc.constantFrom(false, false, false, true);
const isSignedIn = fc.constantFrom(false, false, false, false, true);

const someEvent = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("capture"), isPersonless, isSignedIn, ...common }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("identify"), isPersonless, ...common }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("identify"), other: id, isPersonless, ...common }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("alias"), other: id, isPersonless, ...common }) },
);
const device = fc.constantFrom(...DEVICES);
const someAlias = fc.record({
  ...common,
  kind: fc.constant("alias"),
  id: device,
  other: device,
  isPersonless: fc.constant(false),
});

const requestOf = (minLength: number, maxLength: number, event: typeof someEvent | typeof someAlias = someEvent) =>
  fc.record({
    kind: fc.constant("events"),
    key: fc.constantFrom("publishable", "publishable", "secret"),
    dialect: fc.constantFrom("v0", "v1"),
    events: fc.array(event, { minLength, maxLength }),
  });
const someFact = fc.oneof(
  fc.record({ kind: fc.constantFrom("balance", "usage"), id }),
  fc.record({
    kind: fc.constant("consent"),
    id,
    by: fc.constantFrom("user token", "secret key", "secret key, of a device"),
  }),
);

type Step =
  typeof someFact extends fc.Arbitrary<infer Fact>
    ? Fact | (ReturnType<typeof requestOf> extends fc.Arbitrary<infer Request> ? Request : never)
    : never;

/** Requests of a few events each, with credits, usage and consents between them. */
const requestByRequest: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof({ weight: 4, arbitrary: requestOf(1, 4) }, { weight: 1, arbitrary: someFact }),
  { minLength: 1, maxLength: 14 },
);

/** All events in one request, with credits, usage and consents before and after. */
const inOneBatch: fc.Arbitrary<Step[]> = fc
  .tuple(fc.array(someFact, { maxLength: 2 }), requestOf(6, 40), fc.array(someFact, { maxLength: 2 }))
  .map(([before, request, after]) => [...before, request, ...after]);

/** Devices that claim each other with both kinds of keys, in chains and circles. */
const amongDevices: fc.Arbitrary<Step[]> = fc.array(requestOf(1, 4, someAlias), { minLength: 2, maxLength: 6 });

let values = 0;
/** Each value is used once, so that a property shows which event set it. */
const valuesOf = (list: readonly string[]) => Object.fromEntries(list.map((name) => [name, `value-${++values}`]));

function eventsOf({ key, events }: Extract<Step, { kind: "events" }>): ClaimsEvent[] {
  return events.map(({ set, setOnce, ...event }) => ({
    ...event,
    ...{ uuid: crypto.randomUUID(), key, set: valuesOf(set), setOnce: valuesOf(setOnce) },
  }));
}

type Holdings = Record<"balance" | "usage" | "consent", string[]>;

/** A person of the model or of an export, in one form. Lists without a defined order are sorted. */
function inOneForm(
  person: Pick<ModelPerson, "distinctIds" | "isIdentified">,
  eventUuids: readonly string[],
  held: Holdings,
) {
  const byId = (a: { distinctId: string }, b: { distinctId: string }) => (a.distinctId < b.distinctId ? -1 : 1);
  return {
    distinctIds: person.distinctIds?.toSorted(byId) ?? null,
    isIdentified: person.isIdentified,
    eventUuids: eventUuids.toSorted(),
    balances: held.balance.toSorted(),
    usage: held.usage.toSorted(),
    consents: held.consent.toSorted(),
  };
}

function personOfModel(person: ModelPerson | null) {
  if (person === null) return null;
  const { balance, usage, consent } = person.holdingIds;
  return inOneForm(person, person.eventUuids, { balance: [...balance], usage: [...usage], consent: [...consent] });
}

function personOfExport({ person, events, consentLog }: ClaimsDocument) {
  if (person === null)
    return events.analytics.length + events.metering.length + consentLog.length === 0 ? null : "data without a person";
  const distinctIds = person.distinctIds.map(({ distinctId, via, claimedBy, isVerified }) => ({
    ...{ distinctId, via, claimedBy, isVerified },
  }));
  if (person.personId === null) expect(distinctIds).toEqual([]);
  return inOneForm(
    { distinctIds: person.personId === null ? null : distinctIds, isIdentified: person.isIdentified },
    events.analytics.map(({ uuid }) => uuid),
    {
      balance: person.credits.balances.map(({ balanceId }) => balanceId),
      usage: events.metering.map(({ eventId }) => eventId),
      consent: consentLog.map(({ consentId }) => consentId),
    },
  );
}

function expectProperties(document: ClaimsDocument, person: ModelPerson | null, where: string): void {
  const properties = document.person?.properties ?? {};
  const admitted = person?.properties ?? new Map<string, string[]>();
  expect(Object.keys(properties).sort(), where).toEqual([...admitted.keys()].sort());
  for (const [name, value] of Object.entries(properties)) expect(admitted.get(name), where).toContain(value);
}

/** Applies a history to Purser and to the model, and compares both for every id. */
async function playAndCompare(history: readonly Step[]): Promise<void> {
  const world = await makeClaimsWorld();
  const model = new ClaimsModel();
  const verifiedUuids = new Set<string>();
  for (const step of history) {
    if (step.kind === "events") {
      const events = eventsOf(step);
      await world.send(events, step.dialect);
      for (const event of events) model.play(event);
      if (step.key === "secret") for (const { uuid } of events) verifiedUuids.add(uuid);
    } else if (step.kind === "consent") {
      const holdingId = await world.consent(step.id, step.by);
      model.hold({ kind: "consent", id: step.id, holdingId, isDevice: step.by === "secret key, of a device" });
    } else {
      const holdingId = step.kind === "balance" ? await world.grant(step.id) : await world.use(step.id);
      model.hold({ kind: step.kind, id: step.id, holdingId });
    }
  }
  for (const id of IDS) {
    const [document, person] = [await world.exportOf(id), model.personOf(id)];
    expect(personOfExport(document), id).toEqual(personOfModel(person));
    expectProperties(document, person, id);
    for (const { uuid, isVerified } of document.events.analytics) expect(isVerified).toBe(verifiedUuids.has(uuid));
  }
}

describe(`random histories of claims, PROOF_SEED=${RANDOM_SEED}`, () => {
  const options = { seed: RANDOM_SEED, numRuns: HISTORIES };
  const timeout = timeoutOf(HISTORIES, 15_000);
  const check = async (name: string, histories: fc.Arbitrary<Step[]>): Promise<void> => {
    const tell = soakPart(`model of claims, ${name}`, HISTORIES, "histories", RANDOM_SEED);
    const property = fc.asyncProperty(histories, async (history) => {
      await playAndCompare(history);
      tell();
    });
    await fc.assert(property, options);
  };

  it("give exports that contain exactly the model's person, by any id", { timeout }, async () => {
    console.info(`claims-model.test.ts: PROOF_SEED=${RANDOM_SEED}`);
    await check("request by request", requestByRequest);
  });

  it("give the model's person when all events are in one batch", { timeout }, async () => {
    await check("in one batch", inOneBatch);
  });

  it("give the model's person when devices claim each other", { timeout }, async () => {
    await check("among devices", amongDevices);
  });
});
