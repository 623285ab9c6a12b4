import { constraintOf } from "../db/constraint.ts";
import { isAsLateAs, openSession, type Session, type SessionStart } from "../db/session.ts";
import type { Db, Statement } from "../db/sql.ts";
import { clockMoved, PurserError } from "../errors.ts";
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
  readonly isInForce: () => boolean;
  /** Null for a key that is not known to be in force. */
  readonly bookmark: () => string | null;
  /** Asks for the key, unless it was asked for already. Throws what speaks against the key and its page, and `clockMoved`. */
  readonly check: () => Promise<void>;
  /** The same for a request whose verb was not called, or refuses: another test clock is learnt. */
  readonly checkKey: () => Promise<void>;
  /** The same, and that the end-user's token is admitted, where one is needed. Nothing is answered without it. */
  readonly admit: () => Promise<void>;
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
  /** The test clock by which the request tells the environment's time (D3). */
  readonly clock: () => string | null;
  /** Told where the database has another test clock. */
  readonly learn: (clock: string | null) => void;
  /** What else must hold before anything is handed on, such as the end-user's token. Throws to refuse. */
  readonly admit: (row: KeyRow) => Promise<void>;
}

/** The id of a key, by its hash: so that it is known without asking. */
export function keyIdOf(hash: string): string {
  return `key_${hash.slice(0, 22)}`;
}

export async function openKeySession(opening: Opening): Promise<KeySession> {
  const { d1, start, bookmark, key, text, origin, needsUser, clock, learn } = opening;
  const values = { hash: await hashOf(text), environmentId: key.environment.id, kind: key.kind };
  let session = openSession(d1, start);
  let isChecked = false;
  /** A secret key speaks for every user. */
  let isAdmitted = !needsUser;
  let isInForce = false;
  /** What was found against the key, or its holder: not asked again. */
  let refusal: PurserError | null = null;

  /** The rows of the key, and of the statements that travel with it. */
  const ask = async (statements: readonly Statement[]): Promise<{ row: KeyRow | undefined; rows: unknown[][] }> => {
    const [keys = [], ...rows] = await session.send([selectKey(values), ...statements]);
    // The rows of `selectKey`.
    const row = keys[0] as KeyRow | undefined;
    isInForce = row !== undefined;
    return { row, rows };
  };

  /** At the primary the verb may be writing already: its batch aborts where the key is not in force. */
  const guarded = async (statements: readonly Statement[]): Promise<unknown[][]> => {
    const { environmentId } = values;
    const guards = [guardKey(values), ...(origin === null ? [] : [guardOrigin({ environmentId, origin })])];
    const rows = await sendGuarded(session, [...guards, ...statements]);
    isInForce = true;
    return rows.slice(guards.length);
  };

  const checked = async (
    statements: readonly Statement[],
    isForUser: boolean,
    isOfVerb = true,
  ): Promise<unknown[][]> => {
    let { row, rows } = await ask(statements);
    let flaw = await findFlaw(row, opening, isForUser);
    const isBehind = bookmark !== null && !isAsLateAs(session.bookmark(), bookmark);
    if (start !== "first-primary" && (isBehind || flaw !== null || row?.clock !== clock())) {
      // The replica may not have heard of the key, the setting, the test clock, or of what the caller saw, yet. D1 itself is not given the
      // caller's bookmark: it would hand on whatever it is given as its own state.
      session = openSession(d1, "first-primary");
      ({ row, rows } = await ask(statements));
      flaw = await findFlaw(row, opening, isForUser);
    }
    if (row !== undefined && row.clock !== clock()) {
      learn(row.clock);
      // What the verb asked for rests on another time.
      if (isOfVerb) throw clockMoved();
    }
    if (flaw !== null) throw flaw;
    isAdmitted ||= isForUser;
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

  const check = async (isOfVerb: boolean): Promise<void> => {
    if (!isChecked) await judged(() => checked([], false, isOfVerb));
  };
  const admitCaller = async (isOfVerb: boolean): Promise<void> => {
    if (!isChecked || !isAdmitted) await judged(() => checked([], needsUser, isOfVerb));
  };

  return {
    keyId: keyIdOf(values.hash),
    send: async (statements) => {
      if (isChecked && isAdmitted) return session.send(statements);
      const isRead = statements.length > 0 && statements.every((statement) => statement.isRead === true);
      if (start !== "first-primary" || isRead) return judged(() => checked(statements, needsUser));
      // Whoever may write for an end-user first proves who that is, by a setting that the database has.
      if (needsUser) await admitCaller(true);
      if (isChecked || statements.length === 0) return session.send(statements);
      return judged(() => guarded(statements));
    },
    sendForArrays: async (statement) => {
      await admitCaller(true);
      return session.sendForArrays(statement);
    },
    check: () => check(true),
    checkKey: () => check(false),
    admit: () => admitCaller(false),
    isInForce: () => isInForce,
    bookmark: () => (isInForce ? session.bookmark() : null),
  };
}

/** What speaks against the caller, by the row of the key. Null: nothing. Throws faults. */
async function findFlaw(
  row: KeyRow | undefined,
  { origin, admit }: Pick<Opening, "origin" | "admit">,
  isForUser: boolean,
): Promise<PurserError | null> {
  if (row === undefined) return invalidKey();
  if (origin !== null && !isOriginAllowed(row.endUserAuth, origin)) return foreignOrigin();
  try {
    if (isForUser) await admit(row);
    return null;
  } catch (error) {
    if (error instanceof PurserError && error.fault === undefined) return error;
    throw error;
  }
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
