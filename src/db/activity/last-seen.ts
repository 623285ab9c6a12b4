import { DAY_MS } from "../../lib/time.ts";
import type { Environment } from "../../runtime.ts";
import { databaseAt } from "../databases.ts";
import { statement } from "../sql.ts";

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
const seen = {
  key: statement<Rows>`
    UPDATE api_keys SET last_used_day = CAST(:day AS INTEGER)
    WHERE coalesce(last_used_day, 0) < :day AND hash IN (
      SELECT k.hash FROM json_each(:rows) AS s CROSS JOIN api_keys AS k
        ON k.environment_id = s.value ->> 0 AND k.id = s.value ->> 1
    )`,
  user: statement<Rows>`
    UPDATE accounts SET last_active_day = CAST(:day AS INTEGER)
    WHERE coalesce(last_active_day, 0) < :day AND id IN (
      SELECT a.id FROM json_each(:rows) AS s CROSS JOIN accounts AS a
        ON a.environment_id = s.value ->> 0 AND a.user_id = s.value ->> 1
    )`,
  // An upsert of what is there, because an UPDATE that joins a list would read all ids. Devices that nobody was identified with are left out: they are many, and say nothing to people.
  person: statement<Rows>`
    INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, last_active_day)
    SELECT d.environment_id, d.distinct_id, d.is_device_form, d.first_seen_at_ms, d.last_seen_at_ms, CAST(:day AS INTEGER)
    FROM json_each(:rows) AS s CROSS JOIN distinct_ids AS d
      ON d.environment_id = s.value ->> 0 AND d.distinct_id = s.value ->> 1
    WHERE coalesce(d.last_active_day, 0) < :day AND d.is_sender = 1 AND (d.is_device_form = 0 OR d.is_identified = 1)
    ON CONFLICT (environment_id, distinct_id) DO UPDATE SET last_active_day = excluded.last_active_day`,
};

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
