import { iso } from "../lib/time.ts";
import type { Subject } from "./audit.ts";
import { areAll, balanceTexts } from "./balances.ts";
import { entryTexts, isWhole } from "./entries.ts";
import { LISTS, type ListName } from "./lists.ts";
import { firstIdsMax, type Snapshot } from "./snapshot.ts";

/** Whether anything is held about the person. That somebody asked before is nothing (P8). */
function isHeld({ person, bounds }: Snapshot): boolean {
  return person !== null || [bounds.ledger, bounds.metering, bounds.consent].some((list) => list.length > 0);
}

/** Whether the snapshot's first rows are all rows: then `documentTexts` asks the database nothing more. */
export function isSmall(snapshot: Snapshot): boolean {
  const { bounds, first, firstBalances, ids } = snapshot;
  return (
    ids.length <= firstIdsMax && areAll(firstBalances) && LISTS.every((name) => isWhole(bounds[name], first[name]))
  );
}

/** Joins pieces of a list by the commas between them. */
async function* separated(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let isFirst = true;
  for await (const piece of pieces) {
    yield isFirst ? piece : `,${piece}`;
    isFirst = false;
  }
}

/** What the document ends with: written by whoever sends it, when all before it was sent. */
export const documentEnd = "]}";

/**
 * The person export document as JSON text, in pieces of a page or less, all but `documentEnd`. Throws when a row of the
 * snapshot is gone; what was written by then does not parse.
 */
export async function* documentTexts(
  subject: Subject,
  snapshot: Snapshot,
  exportedAtMs: number,
): AsyncGenerator<string> {
  const { reading, bounds, first } = snapshot;
  const list = (name: ListName) => separated(entryTexts(reading, name, bounds[name], first[name]));
  const { appId, mode, distinctId } = subject;
  const head = JSON.stringify({ format: "json", exportedAt: iso(exportedAtMs), appId, mode, distinctId });
  yield `${head.slice(0, -1)},"person":`;
  if (isHeld(snapshot)) {
    yield `${personHead(snapshot)},"credits":{"balances":[`;
    const idsRead = new Set(snapshot.ids.slice(0, firstIdsMax).map((row) => row.distinctId));
    yield* separated(balanceTexts(reading, bounds.ledger, snapshot.firstBalances, idsRead, exportedAtMs));
    yield '],"ledger":[';
    yield* list("ledger");
    yield ']},"exports":[';
    yield* list("exports");
    yield "]}";
  } else {
    yield "null";
  }
  yield ',"events":{"analytics":[';
  yield* list("analytics");
  yield '],"metering":[';
  yield* list("metering");
  yield ']},"consentLog":[';
  yield* list("consent");
}

/** The person up to its credits. Properties go in as they are stored: parsing them could lose what they say. */
function personHead({ person, ids }: Snapshot): string {
  if (person === null) {
    return '{"personId":null,"distinctIds":[],"properties":{},"createdAt":null,"lastSeenAt":null,"isIdentified":false';
  }
  const asLinked = ids.toSorted((a, b) => (a.linkedAtMs ?? 0) - (b.linkedAtMs ?? 0));
  const distinctIds = asLinked.map(({ distinctId, via, linkedAtMs }) => ({
    distinctId,
    linkedAt: linkedAtMs === null ? null : iso(linkedAtMs),
    via,
  }));
  const before = JSON.stringify({ personId: person.id, distinctIds });
  const after = JSON.stringify({
    createdAt: iso(person.createdAtMs),
    lastSeenAt: iso(person.lastSeenAtMs),
    isIdentified: person.isIdentified,
  });
  return `${before.slice(0, -1)},"properties":${person.properties},${after.slice(1, -1)}`;
}
