import { assert } from "../lib/assert.ts";
import { isJsonObject, parseJson } from "../lib/json.ts";
import { iso } from "../lib/time.ts";
import { type Utf8, utf8 } from "../lib/utf8.ts";
import { personIdOf } from "../people/person-id.ts";
import type { IdRow, Snapshot } from "./snapshot.ts";

/** The most ids in one piece of the document. */
const IDS_OF_PIECE = 2_000;
const NO_PERSON =
  '{"personId":null,"distinctIds":[],"properties":{},"createdAt":null,"lastSeenAt":null,"isIdentified":false';

/** The person up to its credits, in pieces (P9). Without analytics, there is no person id and no list of ids. */
export async function* personHead({ reading, isPerson, ids, properties }: Snapshot): AsyncGenerator<Utf8> {
  const [own] = ids;
  if (!isPerson || own === undefined) return yield utf8(NO_PERSON);
  yield utf8(`{"personId":"${await personIdOf(reading.environmentId, own.distinctId)}","distinctIds":[`);
  for (let start = 0; start < ids.length; start += IDS_OF_PIECE) {
    const piece = ids.slice(start, start + IDS_OF_PIECE).map((row) => JSON.stringify(presentId(row, row === own)));
    yield utf8(`${start === 0 ? "" : ","}${piece.join(",")}`);
  }
  const seen = JSON.stringify({
    createdAt: iso(ids.reduce((least, row) => Math.min(least, row.firstSeenAtMs ?? least), Number.MAX_SAFE_INTEGER)),
    lastSeenAt: iso(ids.reduce((most, row) => Math.max(most, row.lastSeenAtMs), 0)),
    isIdentified: own.isIdentified === 1,
  });
  yield utf8(`],"properties":${mergedProperties(properties)},${seen.slice(1, -1)}`);
}

/** The requested id does not show who claims it, because that may be another person. */
function presentId(row: IdRow, isOwn: boolean) {
  const linkedAtMs = isOwn ? row.firstSeenAtMs : row.claimedAtMs;
  return {
    distinctId: row.distinctId,
    linkedAt: linkedAtMs === null ? null : iso(linkedAtMs),
    via: isOwn ? null : row.via,
    claimedBy: isOwn ? null : row.claimedBy,
    isVerified: !isOwn && row.isVerified === 1,
  };
}

/** Properties as one JSON object: of one name, those of the first that have it. As they are stored, digit by digit. */
function mergedProperties(texts: readonly string[]): string {
  const [first = "{}", ...others] = texts;
  if (others.length === 0) return first;
  const members = new Map<string, string>();
  for (const text of texts) {
    const properties = parseJson(text);
    assert(isJsonObject(properties), "an id's properties are a JSON object");
    for (const [name, value] of Object.entries(properties)) {
      if (!members.has(name)) members.set(name, `${JSON.stringify(name)}:${JSON.stringify(value)}`);
    }
  }
  return `{${[...members.values()].join(",")}}`;
}
