import { type SQL, sql } from "drizzle-orm";
import { asInteger, computed, drizzle, type ValueOf } from "../../db/query.ts";
import { members, usageEvents } from "../../db/schema.ts";
import { all, type StatementRow } from "../../db/sql.ts";
import { invalid } from "../../errors.ts";
import { byCodePoints } from "../../lib/code-points.ts";
import type { TenantCtx } from "../../runtime.ts";
import { exactAmount, type Unit } from "../amounts/amount.ts";
import { minorOfSum, partsOf } from "../amounts/amount-sql.ts";
import { filterCovers } from "../amounts/match.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import { memberNumberOf } from "../ledger/payer-members.ts";
import { eachLeg, storedLeg, unitNumber } from "../ledger/stored-legs.ts";
import { addMeterSum, eachMeter, METERS_OF_GROUPS_MAX, onceARow, sumOfSent } from "./meter-sums.ts";

export type TotalsGroup = "event" | "model" | "member" | "hour" | "day" | "month";

export const isTime = (group: TotalsGroup): boolean => ["hour", "day", "month"].includes(group);

export interface TotalsInput {
  readonly userId: string;
  readonly memberId?: string | undefined;
  readonly event?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly groupBy?: readonly TotalsGroup[] | undefined;
}

/** The most events that are added up. A publishable key has a lower limit. */
const EVENTS_MAX = 200_000;
const EVENTS_OF_END_USER_MAX = 5_000;
/** The most groups, and so the most rows that the Worker holds in memory. Real queries have far fewer. */
export const GROUPS_MAX = 10_000;

/** Returns SQL for the debits of an event in a unit, in minor units. */
const debitedMinor = (unit: Unit) =>
  sql`(SELECT sum(${storedLeg.minor}) FROM ${eachLeg(usageEvents.debits)} WHERE ${storedLeg.unit} = ${unitNumber(unit)})`;

type TotalsQuery = {
  from: number;
  to: number;
  /** The name of the only event to count. Null for all. */
  event: string | null;
  time: string | null;
  byEvent: number;
  byModel: number;
  byMember: number;
  /** With the debits and meters of the events. */
  isGrouped: number;
  limit: number;
};

/** The columns with a unit's minor units: used, then debited. */
const SUMMED = [
  { unit: "count", used: sql`span.n`, debited: sql`span.dn` },
  { unit: "tokens", used: sql`span.t`, debited: sql`span.dt` },
  { unit: "seconds", used: sql`span.s`, debited: sql`span.ds` },
  { unit: "cents", used: sql`span.c`, debited: sql`span.dc` },
] as const;

type SumName = `${Unit}${"Used" | "Debited"}${"High" | "Low"}`;
const groupSumsOf = (name: `${Unit}${"Used" | "Debited"}`, minor: SQL): [SumName, SQL<number | null>][] => [
  [`${name}High`, sql`sum(${onceARow(partsOf(minor).whole)})`],
  [`${name}Low`, sql`sum(${onceARow(partsOf(minor).rest)})`],
];

/**
 * Selects the sums of a span's events by group and meter; the first meter of an event has its other sums. Other events form a group too,
 * so that all rows that are read are counted.
 */
const groupSumsQuery = (
  index: SQL,
  isOfMember: (value: ValueOf<TotalsQuery & { environmentId: number; memberId: string }>, account: SQL) => SQL,
) =>
  accountQuery((value: ValueOf<TotalsQuery & OfUser & { memberId: string }>, account) => {
    const { accountId, memberNumber, occurredAtMs, event, model, debits, meters } = usageEvents;
    const { countMinor, tokensMinor, secondsMinor, centsMinor } = usageEvents;
    const isCounted = sql`(asked.only IS NULL OR ${event} = asked.only)`;
    const debited = (unit: Unit) => sql`iif(asked.grouped AND ${debits} <> '[]', ${debitedMinor(unit)}, 0)`;
    const sums = SUMMED.flatMap(({ unit, used, debited }) => [
      ...groupSumsOf(`${unit}Used`, used),
      ...groupSumsOf(`${unit}Debited`, debited),
    ]);
    const span = sql`(
      SELECT ${isCounted} AS asked,
        CASE asked.time WHEN 'hour' THEN ${occurredAtMs} - ${occurredAtMs} % 3600000
          WHEN 'day' THEN ${occurredAtMs} - ${occurredAtMs} % 86400000
          WHEN 'month' THEN 1000 * unixepoch(${occurredAtMs} / 1000, 'unixepoch', 'start of month') END AS at,
        iif(asked.named AND ${isCounted}, ${event}, NULL) AS what, iif(asked.engines AND ${isCounted}, ${model}, NULL) AS engine,
        ${countMinor} AS n, ${tokensMinor} AS t, ${secondsMinor} AS s, ${centsMinor} AS c,
        ${debited("count")} AS dn, ${debited("tokens")} AS dt, ${debited("seconds")} AS ds, ${debited("cents")} AS dc,
        iif(asked.grouped AND ${isCounted}, ${meters}, NULL) AS sent, ${occurredAtMs} AS used_at,
        iif(asked.persons AND ${isCounted}, ${memberNumber}, NULL) AS member
      FROM (
        SELECT ${value("event")} AS only, ${value("time")} AS time, ${value("byEvent")} AS named,
          ${value("byModel")} AS engines, ${value("byMember")} AS persons, ${value("isGrouped")} AS grouped
      ) AS asked CROSS JOIN ${usageEvents} INDEXED BY ${index}
      WHERE ${accountId} = ${account} AND ${isOfMember(value, account)} AND ${occurredAtMs} >= ${value("from")} AND ${occurredAtMs} < ${value("to")}
      LIMIT ${asInteger(value("limit"))}
  ) AS span`;
    const sent = sumOfSent(sql`span.sent`);
    return drizzle
      .select(
        computed({
          isCounted: sql<0 | 1>`span.asked`,
          time: sql<number | null>`span.at`,
          event: sql<string | null>`span.what`,
          model: sql<string | null>`span.engine`,
          memberId: sql<string | null>`(
          SELECT ${members.memberId} FROM ${members} WHERE ${members.accountId} = ${account} AND ${members.memberNumber} = span.member
        )`,
          meter: sql<string | null>`meter.key`,
          lastMs: sql<number>`max(span.used_at)`,
          whole: sent.whole,
          rest: sent.rest,
          events: sql<number>`sum(${onceARow(sql`1`)})`,
          // The object has exactly the keys of its type.
          ...(Object.fromEntries(sums) as Record<SumName, SQL<number | null>>),
        }),
      )
      .from(span)
      .leftJoin(eachMeter(sql`span.sent`), sql`true`)
      .groupBy(sql`1, 2, 3, 4, span.member, meter.key`)
      .orderBy(sql`2, 3, 4`)
      .limit(METERS_OF_GROUPS_MAX + 1);
  });

const selectGroupSums = groupSumsQuery(sql`usage_events_occurred`, () => sql`true`);
/** The same for one member, from the index of members' events. */
const selectGroupSumsOfMember = groupSumsQuery(sql`usage_events_member`, (value, account) => {
  const number = memberNumberOf(value, account, sql`${value("memberId")}`);
  return sql`${usageEvents.memberNumber} = ${number} AND ${usageEvents.memberNumber} IS NOT NULL`;
});

/** The sums of one group. */
interface UsageGroup {
  readonly time: number | null;
  readonly event: string | null;
  readonly model: string | null;
  readonly memberId: string | null;
  events: number;
  /** The latest `occurredAt`. */
  lastMs: number;
  readonly used: Map<Unit, bigint>;
  readonly debited: Map<Unit, bigint>;
  readonly meters: Map<string, bigint>;
}

/** Adds a row's sums to a group's. */
function addSums(group: UsageGroup, row: StatementRow<typeof selectGroupSums>): void {
  group.events += row.events;
  group.lastMs = Math.max(group.lastMs, row.lastMs);
  addMeterSum(group.meters, row);
  for (const { unit } of SUMMED) {
    group.used.set(unit, (group.used.get(unit) ?? 0n) + minorOfUnit(row, `${unit}Used`));
    group.debited.set(unit, (group.debited.get(unit) ?? 0n) + minorOfUnit(row, `${unit}Debited`));
  }
}

function minorOfUnit(row: Readonly<Record<SumName, number | null>>, name: `${Unit}${"Used" | "Debited"}`): bigint {
  return minorOfSum({ whole: row[`${name}High`] ?? 0, rest: row[`${name}Low`] ?? 0 });
}

type Grouping = Pick<TotalsInput, "event" | "from" | "to" | "userId" | "memberId"> & {
  readonly by: NonNullable<TotalsInput["groupBy"]>;
  readonly isGrouped: boolean;
};

/**
 * Returns the groups of a user's events in [from, to), ordered by time, event, model and member. Groups without a model, and those without
 * a member, come first. Throws `invalid_request` for a span with too many events or groups.
 */
export async function readUsageGroups(
  ctx: TenantCtx,
  { userId, memberId, event, from, to, by, isGrouped }: Grouping,
): Promise<UsageGroup[]> {
  if (from !== undefined && to !== undefined && to < from) throw invalid("to", "must not be before `from`");
  const eventsMax = ctx.caller.kind === "publishable" ? EVENTS_OF_END_USER_MAX : EVENTS_MAX;
  const isGlob = event?.includes("*") === true;
  const select = memberId === undefined ? selectGroupSums : selectGroupSumsOfMember;
  const rows = await all(
    ctx.db,
    select(
      ctx,
      { userId },
      {
        memberId: memberId ?? "",
        from: from ?? Number.MIN_SAFE_INTEGER,
        to: to ?? Number.MAX_SAFE_INTEGER,
        event: event === undefined || isGlob ? null : event,
        time: by.find(isTime) ?? null,
        byEvent: Number(isGlob || by.includes("event")),
        byModel: Number(by.includes("model")),
        byMember: Number(by.includes("member")),
        isGrouped: Number(isGrouped),
        limit: eventsMax + 1,
      },
    ),
  );
  if (rows.reduce((sum, { events }) => sum + events, 0) > eventsMax) {
    throw invalid("from", `must be later, or \`to\` earlier: the user has more than ${eventsMax} events in this time`);
  }
  const found = new Set(
    rows.map((row) => JSON.stringify([row.isCounted, row.time, row.event, row.model, row.memberId])),
  );
  if (found.size > GROUPS_MAX || rows.length > METERS_OF_GROUPS_MAX) {
    throw invalid(
      "event",
      `must be the name of one event, or the span must be shorter: it has more than ${GROUPS_MAX} groups, or ` +
        `${METERS_OF_GROUPS_MAX} with each of their meters`,
    );
  }
  const groups = new Map<string, UsageGroup>();
  for (const row of rows) {
    const { isCounted, time, event: name, model, memberId } = row;
    if (isCounted === 0 || (isGlob && !filterCovers(event ?? "", name ?? ""))) continue;
    const shown = by.includes("event") ? name : null;
    const key = JSON.stringify([time, shown, model, memberId]);
    const none = { memberId, events: 0, lastMs: 0, used: new Map(), debited: new Map(), meters: new Map() };
    const group = groups.get(key) ?? { time, event: shown, model, ...none };
    addSums(group, row);
    groups.set(key, group);
  }
  return [...groups.values()].sort(groupsInOrder);
}

const groupsInOrder = (a: UsageGroup, b: UsageGroup): number =>
  (a.time ?? 0) - (b.time ?? 0) ||
  compare(a.event, b.event) ||
  compare(a.model, b.model) ||
  compare(a.memberId, b.memberId);
const compare = (a: string | null, b: string | null): number =>
  a === null || b === null ? Number(b === null) - Number(a === null) : byCodePoints(a, b);

/** Returns sums by unit as the API returns them: only those above 0, with all their digits. */
export const presentAmounts = (sums: ReadonlyMap<Unit, bigint>): { [U in Unit]?: number } =>
  Object.fromEntries(
    [...sums].filter(([, minor]) => minor > 0n).map(([unit, minor]) => [unit, exactAmount(unit, minor)]),
  );
