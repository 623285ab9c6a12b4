import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Flaw,
  type VerifiedBalance,
  type VerifiedEntry,
  verifyEntries,
} from "../../src/books/credits/verify-entries.ts";
import {
  nextPosition,
  readVerifyPosition,
  VERIFY_START,
  type VerifyPosition,
  writePosition,
} from "../../src/books/credits/verify-rows.ts";

type Entry = { -readonly [Field in keyof VerifiedEntry]: VerifiedEntry[Field] };
type Balance = { -readonly [Field in keyof VerifiedBalance]: VerifiedBalance[Field] };
interface Books {
  readonly entries: Entry[];
  readonly balances: Balance[];
}

const OF = { packId: "cpk_1", unit: "tokens" } as const;

/** Correct books: in each round a balance is granted, or an earlier one changes. */
function soundBooks(rounds: readonly { readonly balance: number; readonly part: number }[]): Books {
  const books: Books = { entries: [], balances: [] };
  for (const [index, { balance: place, part }] of rounds.entries()) {
    const seq = index + 1;
    const balance = place >= books.balances.length ? undefined : books.balances[place];
    if (balance === undefined) {
      const id = `crb_${books.balances.length}`;
      const deltaSteps = 1_000;
      books.entries.push({
        ...OF,
        seq,
        balanceId: id,
        deltaSteps,
        afterSteps: deltaSteps,
        previousSeq: null,
        isGrant: 1,
      });
      books.balances.push({
        ...OF,
        id,
        initialSteps: deltaSteps,
        remainingSteps: deltaSteps,
        grantSeq: seq,
        lastSeq: seq,
      });
      continue;
    }
    const deltaSteps = part < 0 ? -Math.min(balance.remainingSteps, -part) : part;
    const afterSteps = balance.remainingSteps + deltaSteps;
    books.entries.push({
      ...OF,
      seq,
      balanceId: balance.id,
      deltaSteps,
      afterSteps,
      previousSeq: balance.lastSeq,
      isGrant: 0,
    });
    balance.remainingSteps = afterSteps;
    balance.lastSeq = seq;
  }
  return books;
}

/** Verifies page by page, with the rows of each page. `room` is the number of balances that a cursor can carry. */
function verify({ entries, balances }: Books, size: number, room = 3_000): Flaw[] {
  const lastSeq = entries.at(-1)?.seq ?? 0;
  const lastGrantSeq = balances.at(-1)?.grantSeq ?? 0;
  const flaws: Flaw[] = [];
  let position: VerifyPosition | null = VERIFY_START;
  for (let pages = 0; position !== null; pages++) {
    if (pages > 10_000) throw new Error("the verification does not end");
    // As a cursor carries it.
    const { afterSeq, fromSeq, toSeq, ends }: VerifyPosition = readVerifyPosition(writePosition(position));
    const endSeq = afterSeq + size;
    const pageEntries = entries.filter(({ seq }) => seq > afterSeq && seq <= endSeq);
    const standings = entries
      .filter(({ seq }) => ends.has(seq))
      .map((end) => ({ ...end, total: BigInt(end.afterSteps) + (ends.get(end.seq) ?? 0n) }));
    const ids = new Set([...pageEntries, ...standings].map(({ balanceId }) => balanceId));
    const stretch = {
      ...{ afterSeq, endSeq, lastSeq, fromSeq, entries: pageEntries, standings },
      toSeq: toSeq ?? Number.MAX_SAFE_INTEGER,
      isEnd: endSeq >= Math.max(lastSeq, lastGrantSeq),
      balances: balances.filter(({ id, grantSeq }) => ids.has(id) || (grantSeq > afterSeq && grantSeq <= endSeq)),
    };
    const page = verifyEntries(stretch);
    flaws.push(...page.flaws);
    position = nextPosition(position, stretch, page.standings, room);
  }
  return flaws;
}

const flawNames = (flaws: readonly Flaw[]) =>
  [...new Set(flaws.map(({ balanceId, kind }) => `${kind} ${balanceId}`))].sort();

const rounds = fc.array(fc.record({ balance: fc.nat(8), part: fc.integer({ min: -400, max: 200 }) }), {
  minLength: 1,
  maxLength: 40,
});
const size = fc.integer({ min: 1, max: 45 });
const room = fc.constantFrom(0, 3, 7, 3_000);

/** Ways to plant a flaw. The triggers of the database prevent all of them. */
const PLANTINGS: Record<string, (books: Books, at: number, steps: number) => void> = {
  remaining: ({ balances }, at, steps) => {
    const balance = balances[at % balances.length];
    if (balance !== undefined) balance.remainingSteps += steps;
  },
  delta: ({ entries }, at, steps) => {
    const entry = entries[at % entries.length];
    if (entry !== undefined) entry.deltaSteps += steps;
  },
  after: ({ entries }, at, steps) => {
    const entry = entries[at % entries.length];
    if (entry !== undefined) entry.afterSteps += steps;
  },
  previous: ({ entries }, at, steps) => {
    const entry = entries[at % entries.length];
    if (entry !== undefined) entry.previousSeq = (entry.previousSeq ?? 0) + steps;
  },
  stranger: ({ entries }, at) => {
    const entry = entries[at % entries.length];
    if (entry !== undefined) entry.balanceId = "crb_nobody";
  },
  missing: ({ entries }, at) => {
    entries.splice(at % entries.length, 1);
  },
  more: ({ entries, balances }, at, steps) => {
    const balance = balances[at % balances.length];
    if (balance === undefined) return;
    const afterSteps = balance.remainingSteps + steps;
    const seq = (entries.at(-1)?.seq ?? 0) + 1;
    entries.push({
      ...OF,
      seq,
      balanceId: balance.id,
      deltaSteps: steps,
      afterSteps,
      previousSeq: balance.lastSeq,
      isGrant: 0,
    });
  },
};
const planting = fc.record({
  kind: fc.constantFrom(...Object.keys(PLANTINGS)),
  at: fc.nat(100),
  steps: fc.integer({ min: -2_000, max: 2_000 }).filter((steps) => steps !== 0),
});

describe("the verification of a ledger", () => {
  it("finds nothing in correct books, with pages of any size", () => {
    fc.assert(
      fc.property(rounds, size, room, (moves, pages, characters) => {
        expect(verify(soundBooks(moves), pages, characters)).toEqual([]);
      }),
    );
  });

  it("finds a planted flaw, and the same flaws with pages of any size", () => {
    fc.assert(
      fc.property(rounds, size, room, planting, (moves, pages, characters, { kind, at, steps }) => {
        const books = soundBooks(moves);
        PLANTINGS[kind]?.(books, at, steps);
        const whole = flawNames(verify(books, 100));
        expect(whole).not.toEqual([]);
        expect(flawNames(verify(books, pages, characters))).toEqual(whole);
      }),
      { numRuns: 1_000 },
    );
  });

  it("finds every balance with a flaw, in several pages as in one", () => {
    const flawed = (flaws: readonly Flaw[]) => new Set(flaws.map(({ balanceId }) => balanceId));
    fc.assert(
      fc.property(
        rounds,
        size,
        room,
        fc.array(planting, { minLength: 2, maxLength: 4 }),
        (moves, pages, characters, plantings) => {
          const books = soundBooks(moves);
          for (const { kind, at, steps } of plantings)
            if (books.entries.length > 0) PLANTINGS[kind]?.(books, at, steps);
          const [whole, parts] = [flawed(verify(books, 100)), flawed(verify(books, pages, characters))];
          expect([...parts]).toEqual(expect.arrayContaining([...whole]));
        },
      ),
      { numRuns: 1_000 },
    );
  });
});
