import { iso } from "../lib/time.ts";
import { type Utf8, utf8 } from "../lib/utf8.ts";
import type { Subject } from "./audit.ts";
import { balancePieces, hasAllBalances } from "./balances.ts";
import { entryPieces, hasAllEntries } from "./entries.ts";
import { LISTS, type ListName } from "./lists.ts";
import { personHead } from "./person-head.ts";
import type { Snapshot } from "./snapshot.ts";

/** Whether anything is stored about the person. Earlier exports do not count (P8). */
function hasData({ isPerson, bounds }: Snapshot): boolean {
  return isPerson || [bounds.ledger, bounds.metering, bounds.consent].some((list) => list.length > 0);
}

/** Whether the snapshot has all rows. Then `documentPieces` reads nothing more from the database. */
export function fitsInSnapshot(snapshot: Snapshot): boolean {
  const { bounds, first, firstBalances, firstIds, ids } = snapshot;
  return (
    ids.length === firstIds &&
    hasAllBalances(firstBalances) &&
    LISTS.every((name) => hasAllEntries(bounds[name], first[name]))
  );
}

/** Puts commas between the pieces of a list. */
async function* withCommas(pieces: AsyncIterable<Utf8>): AsyncGenerator<Utf8> {
  let isFirst = true;
  for await (const piece of pieces) {
    if (!isFirst) yield utf8(",");
    isFirst = false;
    yield piece;
  }
}

/** The end of the document. The sender writes it after everything else. New bytes each time, since a reader may keep them. */
export const documentEnd = (): Utf8 => utf8("]}");

/**
 * The export document as JSON without `documentEnd`, in pieces of a page or less. It takes the first rows out of the snapshot.
 * It throws when a row of the snapshot was deleted; the JSON that was written until then does not parse.
 */
export async function* documentPieces(
  subject: Subject,
  snapshot: Snapshot,
  exportedAtMs: number,
): AsyncGenerator<Utf8> {
  const { reading, bounds, first } = snapshot;
  const list = (name: ListName) => withCommas(entryPieces(reading, name, bounds[name], first[name]));
  const { appId, mode, distinctId } = subject;
  const head = JSON.stringify({ format: "json", exportedAt: iso(exportedAtMs), appId, mode, distinctId });
  yield utf8(`${head.slice(0, -1)},"person":`);
  if (hasData(snapshot)) {
    yield* personHead(snapshot);
    yield utf8(',"credits":{"balances":[');
    const idsRead = new Set(snapshot.ids.slice(0, snapshot.firstIds).map((row) => row.distinctId));
    yield* withCommas(balancePieces(reading, bounds.ledger, snapshot.firstBalances, idsRead, exportedAtMs));
    yield utf8('],"ledger":[');
    yield* list("ledger");
    yield utf8(']},"exports":[');
    yield* list("exports");
    yield utf8("]}");
  } else {
    yield utf8("null");
  }
  yield utf8(',"events":{"analytics":[');
  yield* list("analytics");
  yield utf8('],"metering":[');
  yield* list("metering");
  yield utf8(']},"consentLog":[');
  yield* list("consent");
}
