import { and, eq, isNull, not, sql } from "drizzle-orm";
import { findConstraint } from "../db/attempt.ts";
import type { Key } from "../db/key-form.ts";
import { computed, drizzle, fields, hasRow, insertFrom, query, type ValueOf } from "../db/query.ts";
import { apiKeys, environments } from "../db/schema.ts";
import { isAsLateAs, openSession, type Session, type SessionStart } from "../db/session.ts";
import { clockOf } from "../db/settings-snapshot.ts";
import type { Db, Statement, StatementRow } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import { clockMoved, isRejection, PurserError } from "../errors.ts";
import { rememberUpTo } from "../lib/bounded-memory.ts";
import { sha256 } from "../lib/encoding.ts";
import { isOriginAllowed } from "./end-user-setting.ts";
import { invalidKey } from "./key.ts";

/** The values by which a key is found. */
export type KeyValues = { hash: string; environmentId: number; kind: Key["kind"] };

const isKeyInForce = (value: ValueOf<KeyValues>) =>
  and(
    eq(apiKeys.hash, value("hash")),
    eq(apiKeys.environmentId, value("environmentId")),
    eq(apiKeys.kind, value("kind")),
    isNull(apiKeys.revokedAtMs),
  );

/**
 * Returns the key's row if the key is valid: the end-user token setting as JSON, and the test clock as text (db/settings-snapshot.ts).
 */
const selectCheckedKey = query((value: ValueOf<KeyValues>) =>
  drizzle
    .select({ ...fields(environments, "endUserAuth"), ...computed({ clock: clockOf() }) })
    .from(apiKeys)
    .crossJoin(environments)
    .where(and(isKeyInForce(value), eq(environments.id, apiKeys.environmentId))),
);
export type CheckedKeyRow = StatementRow<typeof selectCheckedKey>;

/** Aborts the batch with `guard_key` if the key is not valid. */
const guardKey = query((value: ValueOf<KeyValues>) =>
  insertFrom(guards, { name: sql`'key'`, holds: hasRow(apiKeys, isKeyInForce(value)) }, sql``),
);

/** Aborts the batch with `guard_origin` if the environment's setting has a list of origins without this one (L4). */
const guardOrigin = query((value: ValueOf<{ environmentId: number; origin: string }>) => {
  const { endUserAuth } = environments;
  const isForbidden = sql`${endUserAuth} ->> '$.origins' IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM json_each(${endUserAuth}, '$.origins') WHERE value = ${value("origin")})`;
  const holds = not(hasRow(environments, and(eq(environments.id, value("environmentId")), isForbidden)));
  return insertFrom(guards, { name: sql`'origin'`, holds }, sql``);
});

/** Returns the hash of a key, cached. Its validity is never cached. */
const hashKey = rememberUpTo(100, sha256);

/**
 * The database session of a request with a key. The first trip checks the key together with the verb's statements (W3a): if the
 * key is not valid, no rows are returned and nothing is written.
 */
export interface KeySession extends Db {
  readonly keyId: string;
  readonly isInForce: () => boolean;
  /** Returns the bookmark of the session, or null unless the key is known to be valid. */
  readonly bookmark: () => string | null;
  /** Checks the key, unless that was done already. Throws the rejection of the key or of the page's origin, and `clockMoved`. */
  readonly check: () => Promise<void>;
  /** Does the same for a request whose verb was not called, or rejected. It does not throw `clockMoved`. */
  readonly checkKey: () => Promise<void>;
  /** Checks the key and, if one is needed, the end-user's token. Call it before every successful response. */
  readonly admit: () => Promise<void>;
}

interface KeySessionOptions {
  readonly d1: D1Database;
  readonly start: SessionStart;
  /** A read must see at least the state of this bookmark. Null: any state. */
  readonly bookmark: string | null;
  readonly key: Key;
  /** The key as it was sent. */
  readonly text: string;
  /** The `Origin` of a request with a publishable key; null for none. */
  readonly origin: string | null;
  /** Whether the end-user's token is required. */
  readonly needsUser: boolean;
  /** The test clock that the request uses for the environment's time (D3). */
  readonly clock: () => string | null;
  /** Receives the test clock of the database when it differs from `clock()`. */
  readonly setClock: (clock: string | null) => void;
  /** Checks other conditions before rows are returned, such as the end-user's token. Throws to reject. */
  readonly admit: (row: CheckedKeyRow) => Promise<void>;
}

/** Returns the id of a key, computed from its hash, so that no query is needed. */
export function makeKeyId(hash: string): string {
  return `key_${hash.slice(0, 22)}`;
}

export async function openKeySession(options: KeySessionOptions): Promise<KeySession> {
  const { d1, start, bookmark, key, text, origin, needsUser, clock, setClock } = options;
  const values = { hash: await hashKey(text), environmentId: key.environment.id, kind: key.kind };
  let session = openSession(d1, start);
  let isChecked = false;
  /** True from the beginning if no end-user's token is needed. */
  let isAdmitted = !needsUser;
  let isInForce = false;
  /** The rejection of the key or of the end-user. It is thrown again without another query. */
  let rejection: PurserError | null = null;

  /** Sends statements together with the key's check. Returns the key's row and the statements' rows. */
  const sendWithKeyRow = async (
    statements: readonly Statement[],
  ): Promise<{ row: CheckedKeyRow | undefined; rows: unknown[][] }> => {
    const [keys = [], ...rows] = await session.send([selectCheckedKey(values), ...statements]);
    // The row of `selectCheckedKey`.
    const row = keys[0] as CheckedKeyRow | undefined;
    isInForce = row !== undefined;
    return { row, rows };
  };

  /** Sends a write to the primary. Guards in its batch abort it if the key is not valid. */
  const sendWithGuards = async (statements: readonly Statement[]): Promise<unknown[][]> => {
    const { environmentId } = values;
    const guards = [guardKey(values), ...(origin === null ? [] : [guardOrigin({ environmentId, origin })])];
    const rows = await sendOrReject(session, [...guards, ...statements]);
    isInForce = true;
    return rows.slice(guards.length);
  };

  const sendWithCheck = async (
    statements: readonly Statement[],
    checksUser: boolean,
    dependsOnClock = true,
  ): Promise<unknown[][]> => {
    let { row, rows } = await sendWithKeyRow(statements);
    let rejection = await findRejection(row, options, checksUser);
    const isBehind = bookmark !== null && !isAsLateAs(session.bookmark(), bookmark);
    if (start !== "first-primary" && (isBehind || rejection !== null || row?.clock !== clock())) {
      // The replica may not yet have the key, the setting, the test clock, or the state that the caller saw. The caller's bookmark
      // is not sent to D1, because D1 would return it as the bookmark of its own state, whatever it is.
      session = openSession(d1, "first-primary");
      ({ row, rows } = await sendWithKeyRow(statements));
      rejection = await findRejection(row, options, checksUser);
    }
    if (row !== undefined && row.clock !== clock()) {
      setClock(row.clock);
      // The verb's statements used the time of the other clock.
      if (dependsOnClock) throw clockMoved();
    }
    if (rejection !== null) throw rejection;
    isAdmitted ||= checksUser;
    return rows;
  };

  const keepRejection = async (send: () => Promise<unknown[][]>): Promise<unknown[][]> => {
    if (rejection !== null) throw rejection;
    try {
      const rows = await send();
      isChecked = true;
      return rows;
    } catch (error) {
      if (isRejection(error)) rejection = error;
      throw error;
    }
  };

  const check = async (dependsOnClock: boolean): Promise<void> => {
    if (!isChecked) await keepRejection(() => sendWithCheck([], false, dependsOnClock));
  };
  const admitCaller = async (dependsOnClock: boolean): Promise<void> => {
    if (!isChecked || !isAdmitted) await keepRejection(() => sendWithCheck([], needsUser, dependsOnClock));
  };

  return {
    keyId: makeKeyId(values.hash),
    send: async (statements) => {
      if (isChecked && isAdmitted) return session.send(statements);
      const isRead = statements.length > 0 && statements.every((statement) => statement.isRead === true);
      if (start !== "first-primary" || isRead) return keepRejection(() => sendWithCheck(statements, needsUser));
      // Before a write, the end-user's token is verified by the stored setting.
      if (needsUser) await admitCaller(true);
      if (isChecked || statements.length === 0) return session.send(statements);
      return keepRejection(() => sendWithGuards(statements));
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

/** Returns the rejection of the caller according to the key's row, or null. Throws other errors. */
async function findRejection(
  row: CheckedKeyRow | undefined,
  { origin, admit }: Pick<KeySessionOptions, "origin" | "admit">,
  checksUser: boolean,
): Promise<PurserError | null> {
  if (row === undefined) return invalidKey();
  if (origin !== null && !isOriginAllowed(row.endUserAuth, origin)) return foreignOrigin();
  try {
    if (checksUser) await admit(row);
    return null;
  } catch (error) {
    if (isRejection(error)) return error;
    throw error;
  }
}

const foreignOrigin = () =>
  new PurserError("forbidden", "The application's setting does not allow requests from pages of this origin.");

async function sendOrReject(session: Session, statements: readonly Statement[]): Promise<unknown[][]> {
  try {
    return await session.send(statements);
  } catch (error) {
    const constraint = findConstraint(error);
    if (constraint === "guard_key") throw invalidKey();
    throw constraint === "guard_origin" ? foreignOrigin() : error;
  }
}
