import { and, eq, type Placeholder, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { asInteger, drizzle, fields, insertFrom, query, scalar, type ValueOf } from "../../db/query.ts";
import { members, reservations } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { hashForTombstones, isBlocked, personErased } from "../../db/tombstones.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";

/** A member of an account, as a read found it. */
export interface KnownMember {
  /** Null if the account has no such member yet. Then the write creates it. */
  readonly number: number | null;
  /** Whether the id is erased. Then nothing more is stored under it (ME6). */
  readonly isErased: boolean;
}

/** An account's members of those that a write names, by id. */
export type Members = ReadonlyMap<string, KnownMember>;
const NO_MEMBERS: Members = new Map();

/** The members that a write names, as a value: a JSON list of [memberId, [hash for tombstones]]. Null for none, which costs nothing. */
export async function membersValue(ctx: TenantCtx, memberIds: readonly string[]): Promise<string | null> {
  const named = await membersOfValue(ctx, memberIds);
  return named.length === 0 ? null : JSON.stringify(named);
}

export const membersOfValue = (ctx: TenantCtx, memberIds: readonly string[]) =>
  Promise.all([...new Set(memberIds)].map(async (id) => [id, await hashForTombstones(ctx, id)] as const));

const isMemberNamed = (value: ValueOf<{ environmentId: number }>, account: SQL | SQLiteColumn, memberId: SQL) =>
  and(
    eq(members.environmentId, value("environmentId")),
    sql`${members.memberId} = ${memberId}`,
    eq(members.accountId, account),
  );

/** SQL about the members in a text of `membersValue`. */
export interface NamedMembers {
  readonly account: SQL | SQLiteColumn;
  /** FROM: each of them, with the account's row of `members` if there is one. */
  readonly from: SQL;
  readonly memberId: SQL<string>;
  readonly hashes: SQL;
}

/** A single member, which most writes name, is read without `json_each`, whose rows D1 counts. */
export function namedMembers(
  value: ValueOf<{ environmentId: number }>,
  list: SQL | Placeholder,
  account: SQL | SQLiteColumn,
): NamedMembers {
  const memberId = sql<string>`(named_member.value ->> 0)`;
  const each = sql`(
    SELECT given.list -> 0 AS value FROM (SELECT ${list} AS list) AS given WHERE json_array_length(given.list) = 1
    UNION ALL SELECT item.value FROM (SELECT ${list} AS list) AS given
      CROSS JOIN json_each(iif(json_array_length(given.list) > 1, given.list, NULL)) AS item
  ) AS named_member`;
  return {
    account,
    from: sql`${each} LEFT JOIN ${members} ON ${isMemberNamed(value, account, memberId)}`,
    memberId,
    hashes: sql`(named_member.value -> 1)`,
  };
}

/** Returns SQL for the members that a write names, for `readMembers`. */
export const membersOf = (
  value: ValueOf<{ environmentId: number }>,
  named: NamedMembers,
  settingsSnapshot: SQL | SQLiteColumn,
) =>
  sql<string | null>`(
    SELECT json_group_array(json_array(${named.memberId}, ${members.memberNumber}, ${isBlocked(value, settingsSnapshot, named.hashes)}))
    FROM ${named.from}
  )`;

export function readMembers(stored: string | null): Members {
  if (stored === null || stored === "[]") return NO_MEMBERS;
  // `membersOf` wrote this JSON.
  const rows = JSON.parse(stored) as readonly (readonly [string, number | null, 0 | 1])[];
  return new Map(rows.map(([id, number, isErased]) => [id, { number, isErased: isErased === 1 }]));
}

/**
 * Returns the member of a usage, or null for none. If its id is erased, throws `person_erased`, or returns null for usage that has
 * already happened (ME6). `known` is null if the account comes from memory.
 */
export function memberOfUsage(
  known: Members | null,
  memberId: string | undefined,
  hasHappened: boolean,
): string | null {
  if (memberId === undefined) return null;
  if (known?.get(memberId)?.isErased !== true) return memberId;
  if (hasHappened) return null;
  throw personErased("memberId", { field: "memberId" });
}

/** Returns SQL for the number of an account's member. Null if there is none. */
export const memberNumberOf = (
  value: ValueOf<{ environmentId: number }>,
  account: SQL | SQLiteColumn,
  memberId: SQL,
): SQL<number | null> =>
  scalar(
    drizzle
      .select(fields(members, "memberNumber"))
      .from(members)
      .where(isMemberNamed(value, account, memberId)),
  );

/** Returns SQL for a member's number in a write, after `createMembers`. 0, which a CHECK rejects, if it was erased since it was read. */
export const memberOfWrite = (value: ValueOf<WriteContext & { memberId: string | null }>) => {
  const number = memberNumberOf(value, accountOfWrite(value), sql`${value("memberId")}`);
  return sql<number | null>`iif(${value("memberId")} IS NULL, NULL, coalesce(${number}, 0))`;
};

/**
 * SQL: the number of the member of an account's reservation, for the event that settles it. Null if an erasure of the member has already
 * cleared the reservation, because it would not clear the event too (ME6).
 */
export const memberOfReservation = (account: SQL, reservationNumber: SQL) =>
  scalar(
    drizzle
      .select(fields(reservations, "memberNumber"))
      .from(reservations)
      .where(
        and(
          sql`${reservations.accountId} = ${account} AND ${reservations.reservationNumber} = ${reservationNumber}`,
          sql`${reservations.requestHash} <> ''`,
        ),
      ),
  );

/** SQL: the id of the member of a row. Null for none. An erased member has a pseudonym. */
export const memberIdOf = (row: { readonly accountId: SQLiteColumn; readonly memberNumber: SQLiteColumn }) =>
  scalar(
    drizzle
      .select(fields(members, "memberId"))
      .from(members)
      .where(and(eq(members.accountId, row.accountId), eq(members.memberNumber, row.memberNumber))),
  );

/** SQL: the same, but null if the member was erased. */
export const namedMemberOf = (row: { readonly accountId: SQLiteColumn; readonly memberNumber: SQLiteColumn }) =>
  scalar(
    drizzle
      .select(fields(members, "memberId"))
      .from(members)
      .where(
        and(eq(members.accountId, row.accountId), eq(members.memberNumber, row.memberNumber), eq(members.isErased, 0)),
      ),
  );

/**
 * SQL: the id of the member of a reservation, for a message about it. Null if the member was erased; but until the erasure has replaced
 * the reservation's id, the pseudonym, by which the erasure finds the message (ME6).
 */
export const memberOfMessage = () =>
  sql<
    string | null
  >`iif(${reservations.requestHash} = '', ${namedMemberOf(reservations)}, ${memberIdOf(reservations)})`;

const createMembersSql = query((value: ValueOf<WriteContext & { memberIds: string }>) => {
  const last = sql`(SELECT max(${members.memberNumber}) FROM ${members} WHERE ${members.accountId} = writing.account)`;
  return insertFrom(
    members,
    {
      accountId: sql`writing.account`,
      memberNumber: sql`coalesce(${last}, 0) + 1 + item.key`,
      environmentId: asInteger(value("environmentId")),
      memberId: sql`item.value`,
    },
    sql`FROM (SELECT ${accountOfWrite(value)} AS account) AS writing CROSS JOIN json_each(${value("memberIds")}) AS item
      WHERE NOT EXISTS (SELECT 1 FROM ${members} WHERE ${isMemberNamed(value, sql`writing.account`, sql`item.value`)})`,
  );
});

/** Returns the statements that create those of some members that the account lacks. Send them before the rows that name them. */
export function createMembers(writing: WriteContext, known: Members | null, memberIds: readonly string[]): Statement[] {
  const missing = [...new Set(memberIds)].filter((id) => known?.get(id)?.number === null);
  return missing.length === 0
    ? []
    : [createMembersSql({ ...writingValues(writing), memberIds: JSON.stringify(missing) })];
}
