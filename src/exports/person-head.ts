import { type Utf8, utf8 } from "../lib/encoding.ts";
import { iso } from "../lib/time.ts";
import { personIdOf } from "../people/person-walk.ts";
import type { PersonId } from "./person-ids.ts";
import { propertiesPieces } from "./properties.ts";
import type { Snapshot } from "./snapshot.ts";

/** The most ids in one piece of the document. */
const IDS_OF_PIECE = 2_000;
const NO_PERSON =
  '{"personId":null,"distinctIds":[],"properties":{},"createdAt":null,"lastSeenAt":null,"isIdentified":false';

/** The beginning of the document, up to the credits, in pieces (P9). Without analytics it has no person id and no ids. */
export async function* personHead({ reading, isPerson, isIdentified, ids }: Snapshot): AsyncGenerator<Utf8> {
  if (!isPerson) return yield utf8(NO_PERSON);
  const { environmentId, distinctId, firstSeenAtMs } = reading;
  yield utf8(`{"personId":"${await personIdOf(environmentId, distinctId)}","distinctIds":[`);
  let piece: string[] = [];
  let isOwn = true;
  for (const id of ids.each()) {
    const entry = JSON.stringify(isOwn ? presentOwn(distinctId, firstSeenAtMs) : presentExportedId(id));
    piece.push(isOwn ? entry : `,${entry}`);
    isOwn = false;
    if (piece.length < IDS_OF_PIECE) continue;
    yield utf8(piece.join(""));
    piece = [];
  }
  yield utf8(`${piece.join("")}],"properties":`);
  yield* propertiesPieces(reading, ids);
  const seen = { createdAt: iso(ids.firstSeenAtMs), lastSeenAt: iso(ids.lastSeenAtMs), isIdentified };
  yield utf8(`,${JSON.stringify(seen).slice(1, -1)}`);
}

/** The requested id is shown without its claimer, which may be another person. */
const presentOwn = (distinctId: string, firstSeenAtMs: number | null) => ({
  distinctId,
  linkedAt: firstSeenAtMs === null ? null : iso(firstSeenAtMs),
  via: null,
  claimedBy: null,
  isVerified: false,
});

const presentExportedId = ({ distinctId, claimedAtMs, via, claimedBy, isVerified }: PersonId) => ({
  distinctId,
  linkedAt: iso(claimedAtMs),
  via,
  claimedBy,
  isVerified,
});
