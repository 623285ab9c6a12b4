import { learnClock } from "../db/clock.ts";
import { constraintOf } from "../db/constraint.ts";
import { isAsLateAs, openSession, type Session, type SessionStart } from "../db/session.ts";
import type { Db, Statement } from "../db/sql.ts";
import { clockMoved, PurserError } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { invalidKey } from "./bearer.ts";
import type { Key } from "./key.ts";
import { guardKey, guardOrigin, hashOf, type KeyRow, selectKey } from "./key-check.ts";
import { isOriginAllowed } from "./stored-setting.ts";

/**
 * The session of a request that a key opens. Its first trip carries the key's check beside what the verb asks for (W3a):
 * nothing of an answer is handed on, and nothing is written, unless the key is in force.
 */
export interface KeySession extends Db {
  readonly keyId: string;
  /** Null for a key that is not known to be in force. */
  readonly bookmark: () => string | null;
  /** Asks for the key alone, unless it was asked for already. Throws what the check refuses, but for another test clock. */
  readonly checkKey: () => Promise<void>;
}

interface Opening {
  readonly d1: D1Database;
  readonly start: SessionStart;
  /** The state that a read must see at least; null for any. */
  readonly bookmark: string | null;
  readonly key: Key;
  /** The key as it was sent. */
  readonly text: string;
  /** The `Origin` of a request with a publishable key; null for none. */
  readonly origin: string | null;
  /** Whether the end-user's token is asked for, and so the setting by which it is verified. */
  readonly needsUser: boolean;
  /** The isolate, and the test clock by which it tells the environment's time in this request (D3). */
  readonly runtime: Runtime;
  readonly clock: () => string | null;
  /** What else must hold before anything is handed on, such as the end-user's token. Throws to refuse. */
  readonly admit: (row: KeyRow) => Promise<void>;
}

/** The id of a key, by its hash: so that it is known without asking. */
export function keyIdOf(hash: string): string {
  return `key_${hash.slice(0, 22)}`;
}

export async function openKeySession({
  d1,
  start,
  bookmark,
  key,
  text,
  origin,
  needsUser,
  runtime,
  clock,
  admit,
}: Opening): Promise<KeySession> {
  const values = { hash: await hashOf(text), environmentId: key.environment.id, kind: key.kind };
  let session = openSession(d1, start);
  let isChecked = false;
  let isInForce = false;
  /** What was found against the key, or its holder: not asked again. */
  let refusal: PurserError | null = null;

  const isForeign = ({ endUserAuth }: KeyRow) => origin !== null && !isOriginAllowed(endUserAuth, origin);

  /** The rows of the key, and of the statements that travel with it. */
  const ask = async (statements: readonly Statement[]): Promise<{ row: KeyRow | undefined; rows: unknown[][] }> => {
    const [keys = [], ...rows] = await session.send([selectKey(values), ...statements]);
    // The rows of `selectKey`.
    return { row: keys[0] as KeyRow | undefined, rows };
  };

  /** At the primary the verb may be writing already: its batch aborts where the key is not in force. */
  const guarded = async (statements: readonly Statement[]): Promise<unknown[][]> => {
    const { environmentId } = values;
    const guards = [guardKey(values), ...(origin === null ? [] : [guardOrigin({ environmentId, origin })])];
    const rows = await sendGuarded(session, [...guards, ...statements]);
    isInForce = true;
    return rows.slice(guards.length);
  };

  const checked = async (statements: readonly Statement[], isOfVerb = true): Promise<unknown[][]> => {
    let { row, rows } = await ask(statements);
    const isBehind = bookmark !== null && !isAsLateAs(session.bookmark(), bookmark);
    const isRefused =
      row === undefined || (needsUser && row.endUserAuth === null) || isForeign(row) || row.clock !== clock();
    if (start !== "first-primary" && (isBehind || isRefused)) {
      // The replica may not have heard of the key, the setting, the test clock, or of what the caller saw, yet. D1 itself is not given the
      // caller's bookmark: it would hand on whatever it is given as its own state.
      session = openSession(d1, "first-primary");
      ({ row, rows } = await ask(statements));
    }
    if (row === undefined) throw invalidKey();
    if (isOfVerb && row.clock !== clock()) {
      learnClock(runtime, key.environment, row.clock);
      throw clockMoved();
    }
    isInForce = true;
    if (isForeign(row)) throw foreignOrigin();
    await admit(row);
    return rows;
  };

  const judged = async (ask: () => Promise<unknown[][]>): Promise<unknown[][]> => {
    if (refusal !== null) throw refusal;
    try {
      const rows = await ask();
      isChecked = true;
      return rows;
    } catch (error) {
      if (error instanceof PurserError && error.fault === undefined) refusal = error;
      throw error;
    }
  };

  const check = async (isOfVerb?: boolean): Promise<void> => {
    if (!isChecked) await judged(() => checked([], isOfVerb));
  };

  return {
    keyId: keyIdOf(values.hash),
    send: async (statements) => {
      if (
        !isChecked &&
        (start !== "first-primary" || (statements.length > 0 && statements.every(({ isRead }) => isRead === true)))
      ) {
        return judged(() => checked(statements));
      }
      // Whoever may write for an end-user first proves who that is, by a setting that the database has.
      if (needsUser) await check();
      if (isChecked || statements.length === 0) return session.send(statements);
      return judged(() => guarded(statements));
    },
    sendForArrays: async (statement) => {
      await check();
      return session.sendForArrays(statement);
    },
    check,
    checkKey: () => check(false),
    bookmark: () => (isInForce ? session.bookmark() : null),
  };
}

const foreignOrigin = () =>
  new PurserError("forbidden", "The application's setting does not allow requests from pages of this origin.");

async function sendGuarded(session: Session, statements: readonly Statement[]): Promise<unknown[][]> {
  try {
    return await session.send(statements);
  } catch (error) {
    const constraint = constraintOf(error);
    if (constraint === "guard_key") throw invalidKey();
    throw constraint === "guard_origin" ? foreignOrigin() : error;
  }
}
