import { and, inArray, sql } from "drizzle-orm";
import { DAY_MS } from "../../lib/time.ts";
import type { Environment } from "../../runtime.ts";
import { databaseAt } from "../databases.ts";
import { asInteger, assignments, drizzle, insertFrom, names, query, type ValueOf } from "../query.ts";
import { accounts, apiKeys, distinctIds } from "../schema.ts";

/**
 * The day on which a key was last used, on which something was last written for a user, and on which a person's id last sent an
 * event: for people to see, not for decisions. An isolate notes each once a day, and writes it behind an answer with the day's figures (count.ts).
 */
type Seen = "key" | "user" | "person";

/** So that an isolate does not grow. What is forgotten is written once more. */
const KNOWN_MAX = 50_000;
const NOTED_MAX = 5_000;

/** By thing, the day that this isolate noted. */
let known = new Map<string, number>();
let noted: (readonly [database: number, kind: Seen, environmentId: number, id: string, day: number])[] = [];

export function noteSeen(
  kind: Seen,
  { id: environmentId, database }: Pick<Environment, "id" | "database">,
  id: string,
  atMs: number,
): void {
  const day = Math.floor(atMs / DAY_MS);
  const thing = `${kind}\n${database}\n${environmentId}\n${id}`;
  if (known.get(thing) === day) return;
  if (noted.length >= NOTED_MAX) return;
  if (known.size >= KNOWN_MAX) known = new Map();
  known.set(thing, day);
  noted.push([database, kind, environmentId, id, day]);
}

export const isAnySeen = (): boolean => noted.length > 0;

type Rows = { rows: string; day: number };

const setKeys = query((value: ValueOf<Rows>) => {
  const { hash, environmentId, id, lastUsedDay } = apiKeys;
  const used = sql`(SELECT ${hash} FROM json_each(${value("rows")}) AS s CROSS JOIN ${apiKeys}
    ON ${environmentId} = s.value ->> 0 AND ${id} = s.value ->> 1)`;
  return drizzle
    .update(apiKeys)
    .set({ lastUsedDay: asInteger(value("day")) })
    .where(and(sql`coalesce(${lastUsedDay}, 0) < ${value("day")}`, inArray(hash, used)));
});

const setUsers = query((value: ValueOf<Rows>) => {
  const { id, environmentId, userId, lastActiveDay } = accounts;
  const active = sql`(SELECT ${id} FROM json_each(${value("rows")}) AS s CROSS JOIN ${accounts}
    ON ${environmentId} = s.value ->> 0 AND ${userId} = s.value ->> 1)`;
  return drizzle
    .update(accounts)
    .set({ lastActiveDay: asInteger(value("day")) })
    .where(and(sql`coalesce(${lastActiveDay}, 0) < ${value("day")}`, inArray(id, active)));
});

/**
 * An upsert of what is there, because an UPDATE that joins a list would read all ids. Devices that nobody was identified with are
 * left out: they are many, and say nothing to people.
 */
const setPersons = query((value: ValueOf<Rows>) => {
  const { environmentId, distinctId, isDeviceForm, firstSeenAtMs, lastSeenAtMs, lastActiveDay } = distinctIds;
  const kept = { environmentId, distinctId, isDeviceForm, firstSeenAtMs, lastSeenAtMs };
  const set = assignments(distinctIds, { lastActiveDay: sql`excluded.${names(lastActiveDay)}` });
  const sent = sql`FROM json_each(${value("rows")}) AS s CROSS JOIN ${distinctIds}
    ON ${environmentId} = s.value ->> 0 AND ${distinctId} = s.value ->> 1
    WHERE coalesce(${lastActiveDay}, 0) < ${value("day")} AND ${distinctIds.isSender} = 1
      AND (${isDeviceForm} = 0 OR ${distinctIds.isIdentified} = 1)`;
  return sql`${insertFrom(distinctIds, { ...kept, lastActiveDay: asInteger(value("day")) }, sent)}
    ON CONFLICT (${names(environmentId, distinctId)}) DO UPDATE SET ${set}`;
});

const seen = { key: setKeys, user: setUsers, person: setPersons };

/** Writes what was noted, one statement for each database, kind and day. What a write that fails had is missing for a day. */
export async function flushSeen(env: object): Promise<void> {
  const groups = Map.groupBy(noted, ([database, kind, , , day]) => `${database} ${kind} ${day}`);
  noted = [];
  await Promise.all([...groups.values()].map((group) => write(env, group)));
}

async function write(env: object, group: typeof noted): Promise<void> {
  const [first] = group;
  if (first === undefined) return;
  const [database, kind, , , day] = first;
  const rows = JSON.stringify(group.map(([, , environmentId, id]) => [environmentId, id]));
  const { text, params } = seen[kind]({ rows, day });
  await databaseAt(env, database)
    ?.d1.prepare(text)
    .bind(...params)
    .run();
}
