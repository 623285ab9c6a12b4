import { and, eq, gt, sql } from "drizzle-orm";
import { hasRow, insertFrom, query, type ValueOf } from "../../db/query.ts";
import { creditLedger, recurringGrants, reservations } from "../../db/schema.ts";
import { hasSettingsSnapshot } from "../../db/settings-snapshot.ts";
import { guards } from "../../db/views.ts";
import type { Environment, Runtime } from "../../runtime.ts";
import type { User, WriteContext } from "./account.ts";
import type { PayingRow } from "./balance.ts";
import { hasBegun } from "./due-periods.ts";
import { isDue, type OpenReservation } from "./hold.ts";
import { apply, type BalanceChange } from "./settle.ts";

/**
 * An account in an isolate's memory after a write, with all that the plan of the next debit needs. If another isolate has lowered a
 * balance since, the debit's CHECK aborts; if one was raised, `guardAccount` aborts.
 */
export interface AccountState {
  readonly accountId: number;
  readonly userId: string;
  /** The environment's settings snapshot, as text (db/settings-snapshot.ts). */
  readonly settingsSnapshot: string | null;
  /** When the next period of a recurring grant begins (R3). Null when there is none. */
  readonly recurringDueAtMs: number | null;
  /** The state includes all raises of balances up to this seq. */
  readonly seq: number;
  /** All balances that may be able to pay, by id. */
  readonly balances: ReadonlyMap<string, PayingRow>;
  /** Open reservations that this isolate made, by id. */
  readonly reservations: ReadonlyMap<string, OpenReservation>;
  /** Its members that this isolate wrote for. A write that names another one reads first. */
  readonly members: ReadonlySet<string>;
}

/** The state of an account when a write was decided. */
export type StateBefore = Pick<AccountState, "balances" | "reservations" | "seq" | "members">;

/** How a write changes the account in memory. */
export interface StateChanges {
  readonly entries: readonly BalanceChange[];
  readonly newBalances?: readonly PayingRow[] | undefined;
  readonly newReservation?: OpenReservation | undefined;
  /** The reservations that the write settles. */
  readonly settledIds?: readonly string[];
  /** The members whose rows exist after the write. */
  readonly members?: readonly string[];
}

const REMEMBERED_ACCOUNTS_MAX = 1_000;
const REMEMBERED_BALANCES_MAX = 100;
const RESERVATIONS_MAX = 100;
const REMEMBERED_MEMBERS_MAX = 100;
/** A failed guard means that another isolate also writes for this user. For this time, reading first is faster than failing again. */
const READ_FIRST_MS = 1_000;

const accountMemoryKey = ({ database, id }: Environment, kind: "user" | "reservation", name: string): string =>
  `${database} ${id} ${kind} ${name}`;

/** The accounts in one isolate's memory, the latest last. Every key contains the environment's id. */
class AccountMemory {
  readonly #accounts = new Map<string, { readonly environment: Environment; readonly state: AccountState }>();
  /** The account's key by the keys of its reservations. */
  readonly #owners = new Map<string, string>();
  readonly #readFirstUntilMs = new Map<string, number>();
  /** How many writes of this isolate that raise a balance are running, by the account's key. */
  readonly #raising = new Map<string, number>();

  /** Returns the remembered account, or null if a plan needs a read. */
  find(environment: Environment, user: User, nowMs: number): AccountState | null {
    let key: string | undefined;
    if ("userId" in user) key = accountMemoryKey(environment, "user", user.userId);
    if ("reservationId" in user)
      key = this.#owners.get(accountMemoryKey(environment, "reservation", user.reservationId));
    if (key === undefined || (this.#readFirstUntilMs.get(key) ?? 0) > nowMs) return null;
    // A plan made now would fail on its guard once the running write succeeds.
    if (this.#raising.has(key)) return null;
    const state = this.#accounts.get(key)?.state ?? null;
    return isDueInMemory(state, nowMs) ? null : state;
  }

  remember(environment: Environment, state: AccountState): void {
    this.forget(environment, state.userId);
    if (state.balances.size > REMEMBERED_BALANCES_MAX || state.reservations.size > RESERVATIONS_MAX) return;
    const key = accountMemoryKey(environment, "user", state.userId);
    this.#accounts.set(key, { environment, state });
    for (const id of state.reservations.keys()) this.#owners.set(accountMemoryKey(environment, "reservation", id), key);
    if (this.#accounts.size > REMEMBERED_ACCOUNTS_MAX) this.#dropOldest();
  }

  forget(environment: Environment, userId: string): void {
    this.#drop(accountMemoryKey(environment, "user", userId));
  }

  /**
   * Returns the remembered state if another write of this isolate succeeded after `before` was read, otherwise `before`. Only `before`
   * can have empty balances to which a commit returns holds. The account's id is compared, because after an erasure and its lift the
   * user has another account.
   */
  latest(
    environment: Environment,
    { userId, accountId }: { readonly userId: string; readonly accountId: number | undefined },
    before: StateBefore,
  ): StateBefore {
    const state = this.#accounts.get(accountMemoryKey(environment, "user", userId))?.state;
    if (state === undefined || state.accountId !== accountId || state.seq < before.seq) return before;
    return {
      ...state,
      balances: new Map([...before.balances, ...state.balances]),
      members: new Set([...before.members, ...state.members]),
    };
  }

  /** Runs a write that raises a balance. Meanwhile the remembered account is not used for plans. */
  async whileRaising<Answer>(environment: Environment, userId: string, write: () => Promise<Answer>): Promise<Answer> {
    const key = accountMemoryKey(environment, "user", userId);
    this.#raising.set(key, (this.#raising.get(key) ?? 0) + 1);
    try {
      return await write();
    } finally {
      const others = (this.#raising.get(key) ?? 1) - 1;
      if (others > 0) this.#raising.set(key, others);
      else this.#raising.delete(key);
    }
  }

  /** Makes each write read the account first for a while, because another isolate writes for this user. */
  readFirst(environment: Environment, userId: string, nowMs: number): void {
    this.forget(environment, userId);
    if (this.#readFirstUntilMs.size >= REMEMBERED_ACCOUNTS_MAX) this.#readFirstUntilMs.clear();
    this.#readFirstUntilMs.set(accountMemoryKey(environment, "user", userId), nowMs + READ_FIRST_MS);
  }

  /** Drops many accounts at a time, because the search for the first entry of a Map passes over all deleted entries. */
  #dropOldest(): void {
    for (const key of [...this.#accounts.keys()].slice(0, REMEMBERED_ACCOUNTS_MAX / 10)) this.#drop(key);
  }

  #drop(key: string): void {
    const entry = this.#accounts.get(key);
    if (entry === undefined) return;
    this.#accounts.delete(key);
    for (const id of entry.state.reservations.keys())
      this.#owners.delete(accountMemoryKey(entry.environment, "reservation", id));
  }
}

const isDueInMemory = (state: AccountState | null, nowMs: number): boolean =>
  state !== null && state.recurringDueAtMs !== null && state.recurringDueAtMs <= nowMs;

const memories = new WeakMap<object, AccountMemory>();

/** Returns the memory of the isolate in which a verb runs. */
export function memoryOf({ isolate }: Pick<Runtime, "isolate">): AccountMemory {
  const memory = memories.get(isolate) ?? new AccountMemory();
  memories.set(isolate, memory);
  return memory;
}

/** Returns the account's state after a write. */
export function afterWrite(
  before: Omit<StateBefore, "seq">,
  { entries, newBalances = [], newReservation, settledIds = [], members = [] }: StateChanges,
): Omit<StateBefore, "seq"> {
  const rows = apply([...before.balances.values(), ...newBalances], entries);
  const reservations = new Map(before.reservations);
  if (newReservation !== undefined) reservations.set(newReservation.id, newReservation);
  for (const id of settledIds) reservations.delete(id);
  return {
    balances: new Map(rows.map((row) => [row.id, row])),
    reservations,
    members:
      members.length === 0 ? before.members : new Set([...before.members, ...members].slice(-REMEMBERED_MEMBERS_MAX)),
  };
}

const ENTRIES_SINCE_MAX = 100;

/**
 * Aborts the batch with `guard_account` if a plan from memory may be wrong: a balance was raised since the account was remembered, a
 * hold or a period is due, or the environment's settings snapshot has changed. Lowered balances need no guard, because the CHECK
 * `remaining >= 0` aborts. Reads at most a hundred entries.
 */
export const guardAccount = query((value: ValueOf<WriteContext & { seq: number; settingsSnapshot: string | null }>) => {
  const { accountId, seq, deltaMinor } = creditLedger;
  const isLater = and(eq(accountId, value("accountId")), gt(seq, value("seq")));
  const isRaised = sql`(${deltaMinor} > 0 OR ${seq} > ${value("seq")} + ${ENTRIES_SINCE_MAX})`;
  return insertFrom(
    guards,
    {
      name: sql`'account'`,
      holds: sql`NOT ${hasRow(creditLedger, and(isLater, isRaised))}
        AND NOT ${hasRow(reservations, isDue(value, sql`${value("accountId")}`))}
        AND NOT ${hasRow(recurringGrants, hasBegun(value, sql`${value("accountId")}`))} AND ${hasSettingsSnapshot(value)}`,
    },
    sql``,
  );
});
