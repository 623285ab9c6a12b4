import { counterOf, presentUserLimits } from "../books/limits/user-limits.ts";
import { presentStored } from "../books/recurring/recurring.ts";
import { type Utf8, utf8 } from "../lib/encoding.ts";
import { iso } from "../lib/time.ts";
import type { Subject } from "./audit.ts";
import { balancePieces, hasAllBalances } from "./balances.ts";
import { entryPieces, hasAllEntries } from "./entries.ts";
import { LISTS, type ListName } from "./lists.ts";
import { personHead } from "./person-head.ts";
import { boundsOf } from "./person-ids.ts";
import { hasAllProperties } from "./properties.ts";
import type { Snapshot } from "./snapshot.ts";

/** Whether anything is stored about the person. Earlier exports do not count (P8). */
function hasData({ isPerson, ids: { sizes, recurring }, limits }: Snapshot): boolean {
  // A user with an own amount, or with counted usage, has a counter.
  if (recurring.length > 0 || limits.some((row) => counterOf(row) !== undefined)) return true;
  return isPerson || [sizes.ledger, sizes.metering, sizes.consent].some(({ rows }) => rows > 0);
}

/** With more ids, the whole document would be too large for memory. */
const IDS_OF_WHOLE = 1_000;

/** Whether the snapshot has all rows. Then `documentPieces` reads nothing more from the database. */
export function fitsInSnapshot({ ids, first, firstBalances, isPerson }: Snapshot): boolean {
  return (
    ids.count <= IDS_OF_WHOLE &&
    (!isPerson || hasAllProperties(ids)) &&
    ids.sizes.ledger.ids <= 1 &&
    hasAllBalances(firstBalances) &&
    LISTS.every((name) => hasAllEntries(ids.sizes[name].rows, first[name]))
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

/** The recurring grants of all ids, without brackets. */
async function* recurringPieces({ recurring }: Snapshot["ids"], exportedAtMs: number): AsyncGenerator<Utf8> {
  for (const stored of recurring) yield utf8(JSON.stringify(presentStored(stored, exportedAtMs)).slice(1, -1));
}

/** The end of the document. The sender writes it last. It is a new array each time, because a reader may detach it. */
export const documentEnd = (): Utf8 => utf8("]}");

/**
 * The export document as JSON without `documentEnd`, in pieces of a page or less. It removes the first rows from the snapshot.
 * Throws when a row of the snapshot was deleted. The JSON that was sent by then does not parse.
 */
export async function* documentPieces(
  subject: Subject,
  snapshot: Snapshot,
  exportedAtMs: number,
): AsyncGenerator<Utf8> {
  const { reading, ids, first } = snapshot;
  const list = (name: ListName) => withCommas(entryPieces(reading, name, boundsOf(ids, name), first[name]));
  const { appId, mode, distinctId } = subject;
  const head = JSON.stringify({ format: "json", exportedAt: iso(exportedAtMs), appId, mode, distinctId });
  yield utf8(`${head.slice(0, -1)},"person":`);
  if (hasData(snapshot)) {
    yield* personHead(snapshot);
    yield utf8(',"credits":{"balances":[');
    yield* withCommas(balancePieces(reading, boundsOf(ids, "ledger"), snapshot.firstBalances, exportedAtMs));
    yield utf8('],"ledger":[');
    yield* list("ledger");
    yield utf8('],"recurring":[');
    yield* withCommas(recurringPieces(ids, exportedAtMs));
    const limits = JSON.stringify(presentUserLimits(snapshot.limits, exportedAtMs));
    yield utf8(`]},"usageLimits":${limits},"exports":[`);
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
