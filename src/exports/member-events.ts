import { and, eq, sql } from "drizzle-orm";
import { describedEvent, usageTimes } from "../books/usage/describe-events.ts";
import { asInteger, computed, drizzle, fields, query, read, type ValueOf } from "../db/query.ts";
import { accounts, environments, members, usageEvents } from "../db/schema.ts";
import { all, type StatementRow } from "../db/sql.ts";
import { assert } from "../errors.ts";
import { type Utf8, utf8 } from "../lib/encoding.ts";
import { type PersonKey, personTable, withPerson } from "../people/person-walk.ts";
import { jsonOf, usagePropertiesJson } from "./lists.ts";
import type { Reading } from "./span-cursor.ts";

const MEMBER_EVENTS_OF_PAGE = 2_000;
const BYTES_OF_PAGE = 2_000_000;
/** With more events of a person as a member, the export would take too many queries. */
export const MEMBER_EVENTS_MAX = 500_000;

/**
 * Selects the payers of whom the person is a member: each row of `members`, with the number of its events and the last of them. Those
 * whom the person's own other ids pay are marked: their events are in the list of the payer (ME4).
 */
export const findMemberships = query((value: ValueOf<PersonKey>) => {
  const hasMembers = sql`EXISTS (SELECT 1 FROM ${members} WHERE ${members.environmentId} = ${environments.id})`;
  const ofMember = sql`FROM ${usageEvents} INDEXED BY usage_events_member
    WHERE ${usageEvents.accountId} = ${members.accountId} AND ${usageEvents.memberNumber} = ${members.memberNumber}`;
  const payer = sql`(SELECT ${accounts.userId} FROM ${accounts} WHERE ${accounts.id} = ${members.accountId})`;
  const isOwn = sql`${payer} IN (SELECT ${personTable.distinctId} FROM ${personTable})`;
  return read(
    computed({
      accountId: sql<number>`${members.accountId}`,
      number: sql<number>`${members.memberNumber}`,
      memberId: sql<string>`${members.memberId}`,
      isOwn: sql<0 | 1>`${isOwn}`,
      rows: sql<number>`iif(${isOwn}, 0, (SELECT count(*) ${ofMember}))`,
      last: sql<number>`coalesce((SELECT max(${usageEvents.seq}) ${ofMember}), 0)`,
    }),
    (list) => sql`${withPerson(value, { idsMax: 1_000_001, onlyIf: hasMembers })}
      SELECT ${list} FROM ${personTable} CROSS JOIN ${members} INDEXED BY members_member_id
        ON ${members.environmentId} = ${personTable.environmentId} AND ${members.memberId} = ${personTable.distinctId}
      WHERE ${members.isErased} = 0 AND ${payer} <> ${members.memberId}`,
  );
});
export type Membership = StatementRow<typeof findMemberships>;

const nothing = { json: () => sql`'null'` };
/** The member's copy of an event: nothing in it names the payer, or tells what the payer paid (ME4). */
const memberEventFields = {
  role: { json: () => sql`'"member"'` },
  eventId: nothing,
  memberId: { json: () => sql`json_quote(${members.memberId})` },
  userId: nothing,
  ...describedEvent,
  ...usageTimes,
  debits: nothing,
  uncovered: nothing,
  properties: { json: usagePropertiesJson },
};

type MemberPage = { accountId: number; number: number; after: number; last: number };

const selectMemberPage = query((value: ValueOf<MemberPage>) => {
  const { head, body } = jsonOf({ fields: memberEventFields, bodyFrom: "properties" });
  const { accountId, memberNumber, seq, properties, largePropertiesBytes } = usageEvents;
  const bytes = sql`coalesce(octet_length(${properties}), ${largePropertiesBytes}, 0)`;
  // No rows if the member was erased meanwhile.
  const page = sql`
    SELECT ${accountId} AS account, ${seq} AS at, ${bytes} AS size FROM ${members} CROSS JOIN ${usageEvents} INDEXED BY usage_events_member
      ON ${accountId} = ${members.accountId} AND ${memberNumber} = ${members.memberNumber}
    WHERE ${members.accountId} = ${value("accountId")} AND ${members.memberNumber} = ${value("number")} AND ${members.isErased} = 0
      AND ${seq} > ${value("after")} AND ${seq} <= ${value("last")} ORDER BY ${seq} LIMIT ${asInteger(sql`${MEMBER_EVENTS_OF_PAGE}`)}`;
  const fitting = sql`SELECT *, sum(size) OVER (ORDER BY at) - size AS earlier FROM (${page})`;
  return read(
    computed({ seq: sql<number>`${seq}`, head: sql<string>`${head}`, body: sql<string>`${body}` }),
    (list) => sql`SELECT ${list} FROM (${fitting}) AS page
      CROSS JOIN ${usageEvents} ON ${accountId} = page.account AND ${seq} = page.at
      CROSS JOIN ${members} ON ${members.accountId} = page.account AND ${members.memberNumber} = ${memberNumber}
      WHERE page.earlier < ${BYTES_OF_PAGE} ORDER BY page.at`,
  );
});

/** An erasure of the payer cuts the member from its events, and so this export (ME6). */
export class PayerErased extends Error {}

const selectPayerInBooks = query((value: ValueOf<{ accountId: number }>) =>
  drizzle
    .select(fields(accounts, "id"))
    .from(accounts)
    .where(and(eq(accounts.id, value("accountId")), eq(accounts.isErased, 0))),
);

/**
 * Returns the events that the person used as a member, as JSON without brackets. Throws if a row of the snapshot is missing:
 * `PayerErased` where the payer's erasure took it.
 */
export async function* memberEventPieces(
  { db }: Pick<Reading, "db">,
  memberships: readonly Membership[],
): AsyncGenerator<Utf8> {
  for (const { accountId, number, rows, last } of memberships) {
    let after = 0;
    for (let left = rows; left > 0; ) {
      const page = await all(db, selectMemberPage({ accountId, number, after, last }));
      if (page.length === 0 && (await all(db, selectPayerInBooks({ accountId }))).length === 0) throw new PayerErased();
      assert(page.length > 0 && page.length <= left, "every row that the snapshot counted is read");
      left -= page.length;
      after = page.at(-1)?.seq ?? last;
      yield utf8(page.map(({ head, body }) => `${head}${body}}`).join(","));
    }
  }
}
