import fc from "fast-check";
import { expect, it } from "vitest";
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
interface Accounts {
  readonly entries: Entry[];
  readonly balances: Balance[];
}

const OF = { packId: "cpk_1", unit: "tokens" } as const;

/** Correct books: in each round a balance is granted, or an earlier one changes. */
function soundLedger(rounds: readonly { readonly balance: number; readonly part: number }[]): Accounts {
  const books: Accounts = { entries: [], balances: [] };
  for (const [index, { balance: place, part }] of rounds.entries()) {
    const seq = index + 1;
    const balance = place >= books.balances.length ? undefined : books.balances[place];
    if (balance === undefined) {
      const id = `crb_${books.balances.length}`;
      const deltaMinor = 1_000;
      books.entries.push({
        ...OF,
        seq,
        balanceId: id,
        deltaMinor,
        afterMinor: deltaMinor,
        previousSeq: null,
        isGrant: 1,
      });
      books.balances.push({
        ...OF,
        id,
        initialMinor: deltaMinor,
        remainingMinor: deltaMinor,
        grantSeq: seq,
        lastSeq: seq,
      });
      continue;
    }
    const deltaMinor = part < 0 ? -Math.min(balance.remainingMinor, -part) : part;
    const afterMinor = balance.remainingMinor + deltaMinor;
    books.entries.push({
      ...OF,
      seq,
      balanceId: balance.id,
      deltaMinor,
      afterMinor,
      previousSeq: balance.lastSeq,
      isGrant: 0,
    });
    balance.remainingMinor = afterMinor;
    balance.lastSeq = seq;
  }
  return books;
}

/** Verifies page by page, with the rows of each page. `room` is the number of balances that a cursor can carry. */
function verify({ entries, balances }: Accounts, size: number, room = 3_000): Flaw[] {
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
    const checkpoints = entries
      .filter(({ seq }) => ends.has(seq))
      .map((end) => ({ ...end, total: BigInt(end.afterMinor) + (ends.get(end.seq) ?? 0n) }));
    const ids = new Set([...pageEntries, ...checkpoints].map(({ balanceId }) => balanceId));
    const stretch = {
      ...{ afterSeq, endSeq, lastSeq, fromSeq, entries: pageEntries, checkpoints },
      toSeq: toSeq ?? Number.MAX_SAFE_INTEGER,
      isEnd: endSeq >= Math.max(lastSeq, lastGrantSeq),
      balances: balances.filter(({ id, grantSeq }) => ids.has(id) || (grantSeq > afterSeq && grantSeq <= endSeq)),
    };
    const page = verifyEntries(stretch);
    flaws.push(...page.flaws);
    position = nextPosition(position, stretch, page.checkpoints, room);
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

/** Ways to plant a error. The triggers of the database prevent all of them. */
const PLANTINGS: Record<string, (books: Accounts, at: number, minor: number) => void> = {
  remaining: ({ balances }, at, minor) => {
    const balance = balances[at % balances.length];
    if (balance !== undefined) balance.remainingMinor += minor;
  },
  delta: ({ entries }, at, minor) => {
    const entry = entries[at % entries.length];
    if (entry !== undefined) entry.deltaMinor += minor;
  },
  after: ({ entries }, at, minor) => {
    const entry = entries[at % entries.length];
    if (entry !== undefined) entry.afterMinor += minor;
  },
  previous: ({ entries }, at, minor) => {
    const entry = entries[at % entries.length];
    if (entry !== undefined) entry.previousSeq = (entry.previousSeq ?? 0) + minor;
  },
  stranger: ({ entries }, at) => {
    const entry = entries[at % entries.length];
    if (entry !== undefined) entry.balanceId = "crb_nobody";
  },
  missing: ({ entries }, at) => {
    entries.splice(at % entries.length, 1);
  },
  more: ({ entries, balances }, at, minor) => {
    const balance = balances[at % balances.length];
    if (balance === undefined) return;
    const afterMinor = balance.remainingMinor + minor;
    const seq = (entries.at(-1)?.seq ?? 0) + 1;
    entries.push({
      ...OF,
      seq,
      balanceId: balance.id,
      deltaMinor: minor,
      afterMinor,
      previousSeq: balance.lastSeq,
      isGrant: 0,
    });
  },
};
const planting = fc.record({
  kind: fc.constantFrom(...Object.keys(PLANTINGS)),
  at: fc.nat(100),
  minor: fc.integer({ min: -2_000, max: 2_000 }).filter((minor) => minor !== 0),
});

it("the verification of a ledger finds nothing in correct books, with pages of any size", () => {
  fc.assert(
    fc.property(rounds, size, room, (moves, pages, characters) => {
      expect(verify(soundLedger(moves), pages, characters)).toEqual([]);
    }),
  );
});

it("the verification of a ledger finds a planted error, and the same errors with pages of any size", () => {
  fc.assert(
    fc.property(rounds, size, room, planting, (moves, pages, characters, { kind, at, minor }) => {
      const books = soundLedger(moves);
      PLANTINGS[kind]?.(books, at, minor);
      const whole = flawNames(verify(books, 100));
      expect(whole).not.toEqual([]);
      expect(flawNames(verify(books, pages, characters))).toEqual(whole);
    }),
    { numRuns: 1_000 },
  );
});

it("the verification of a ledger finds every balance with a error, in several pages as in one", () => {
  const flawed = (flaws: readonly Flaw[]) => new Set(flaws.map(({ balanceId }) => balanceId));
  fc.assert(
    fc.property(
      rounds,
      size,
      room,
      fc.array(planting, { minLength: 2, maxLength: 4 }),
      (moves, pages, characters, plantings) => {
        const books = soundLedger(moves);
        for (const { kind, at, minor } of plantings) if (books.entries.length > 0) PLANTINGS[kind]?.(books, at, minor);
        const [whole, parts] = [flawed(verify(books, 100)), flawed(verify(books, pages, characters))];
        expect([...parts]).toEqual(expect.arrayContaining([...whole]));
      },
    ),
    { numRuns: 1_000 },
  );
});
