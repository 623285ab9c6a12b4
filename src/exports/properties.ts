import { and, eq, sql } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { idProperties } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { assert } from "../lib/assert.ts";
import { type Utf8, utf8 } from "../lib/encoding.ts";
import { isJsonObject, parseJson } from "../lib/json.ts";
import type { PersonId, PersonIds } from "./person-ids.ts";
import type { Reading } from "./span-cursor.ts";

/** The limits of a page. Ids have at most 800 bytes, and D1 takes 2 MB for one value. */
const PROPERTY_IDS_A_PAGE = 1_000;
const PROPERTIES_PAGE_BYTES = 2_000_000;
/** The most written names that memory remembers. Beyond them, a name that several ids have may occur twice. */
const NAMES_MAX = 100_000;

/** Properties as they were at the snapshot. Changed ones are not found. */
const propertiesAtSnapshot = query((value: ValueOf<{ environmentId: number; ids: string }>) =>
  drizzle
    .select(fields(idProperties, "properties"))
    .from(sql`json_each(${value("ids")}) AS item`)
    .crossJoin(idProperties)
    .where(
      and(
        eq(idProperties.environmentId, value("environmentId")),
        sql`${idProperties.distinctId} = item.value ->> 0 AND ${idProperties.version} = item.value ->> 1`,
      ),
    ),
);

/** The ids whose properties were not read with the snapshot, nearest first. */
function* laterIds({ each, firstProperties }: PersonIds): Generator<PersonId> {
  let index = 0;
  for (const id of each()) {
    if (id.propertiesVersion > 0 && (firstProperties[index] ?? null) === null) yield id;
    index++;
  }
}

/** Whether the snapshot has all properties. */
export const hasAllProperties = (ids: PersonIds): boolean => laterIds(ids).next().done === true;

/** The texts of all properties, nearest first. Throws when one was changed after the snapshot, because P10 would be violated. */
async function* propertiesTexts({ db, environmentId }: Reading, ids: PersonIds): AsyncGenerator<string> {
  for (const text of ids.firstProperties) if (text !== null) yield text;
  const later = laterIds(ids);
  for (;;) {
    const wanted: [string, number][] = [];
    for (let bytes = 0; wanted.length < PROPERTY_IDS_A_PAGE && bytes < PROPERTIES_PAGE_BYTES; ) {
      const { value, done } = later.next();
      if (done === true) break;
      wanted.push([value.distinctId, value.propertiesVersion]);
      bytes += value.propertiesBytes;
    }
    if (wanted.length === 0) return;
    const found = await all(db, propertiesAtSnapshot({ environmentId, ids: JSON.stringify(wanted) }));
    assert(found.length === wanted.length, "properties are as they were at the snapshot");
    for (const { properties } of found) yield properties;
  }
}

/** The merged properties as one JSON object, in pieces. The nearest id wins for each name. Values keep their stored digits. */
export async function* propertiesPieces(reading: Reading, ids: PersonIds): AsyncGenerator<Utf8> {
  const names = new Set<string>();
  yield utf8("{");
  let isFirst = true;
  for await (const text of propertiesTexts(reading, ids)) {
    const properties = parseJson(text);
    assert(isJsonObject(properties), "an id's properties are a JSON object");
    const members: string[] = [];
    for (const [name, value] of Object.entries(properties)) {
      if (names.has(name)) continue;
      if (names.size < NAMES_MAX) names.add(name);
      members.push(`${JSON.stringify(name)}:${JSON.stringify(value)}`);
    }
    if (members.length === 0) continue;
    yield utf8(`${isFirst ? "" : ","}${members.join(",")}`);
    isFirst = false;
  }
  yield utf8("}");
}
