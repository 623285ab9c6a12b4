/**
 * An erasure of a member empties the fingerprints of the requests that named it. A repeat is then compared with what is stored of the
 * first request (ME6).
 */
import type { usageEvents } from "../../db/schema.ts";
import type { FormsOfId } from "../../db/usage-ids.ts";
import { canonicalJson } from "../../lib/json.ts";
import { presentQuantities, type Quantities } from "../amounts/amount.ts";
import { metersJson, presentMeters, type SentMeters } from "../amounts/meters.ts";

/** The parts of a request for a usage, without the member and the texts, which are erased. */
interface SentAgain {
  readonly accountId: number | null;
  readonly event: string;
  readonly model: string | null;
  readonly quantities?: Quantities | undefined;
  readonly meters?: SentMeters | undefined;
}

/** A request of an event again, or of a commit, which names a reservation. */
export interface EventSentAgain extends SentAgain {
  readonly occurredAt?: number | undefined;
  /** The forms of its reservation's id. Null for none. */
  readonly reservation: FormsOfId | null;
}

type StoredUsage = Pick<typeof usageEvents.$inferSelect, "accountId" | "event" | "model" | "meters">;

const haveSameMeters = (stored: string | null, sent: SentMeters | undefined): boolean =>
  canonicalJson(presentMeters(stored)) === canonicalJson(sent === undefined ? null : presentMeters(metersJson(sent)));

const isSameUsage = (stored: StoredUsage, sent: SentAgain): boolean =>
  stored.accountId === sent.accountId &&
  stored.event === sent.event &&
  stored.model === sent.model &&
  haveSameMeters(stored.meters, sent.meters);

type EventOfMember = StoredUsage &
  Pick<
    typeof usageEvents.$inferSelect,
    ("countMinor" | "tokensMinor" | "secondsMinor" | "centsMinor") | ("occurredAtMs" | "receivedAtMs" | "reservationId")
  >;

/** Returns whether a request says what is stored of an event. The quantities of an event with meters are their price. */
export function isSameEvent(stored: EventOfMember, sent: EventSentAgain): boolean {
  const { quantities } = sent;
  const haveSameQuantities =
    quantities === undefined ||
    ((quantities.count ?? null) === stored.countMinor &&
      (quantities.tokens ?? null) === stored.tokensMinor &&
      (quantities.seconds ?? null) === stored.secondsMinor &&
      (quantities.cents ?? null) === stored.centsMinor);
  return (
    isSameUsage(stored, sent) &&
    haveSameQuantities &&
    (stored.reservationId === null
      ? sent.reservation === null
      : sent.reservation?.includes(stored.reservationId) === true) &&
    stored.occurredAtMs === (sent.occurredAt ?? stored.receivedAtMs)
  );
}

/** Returns whether a request says what is stored of a reservation. */
export function isSameReservation(
  stored: StoredUsage & { readonly quantities: string; readonly onExpiry: "charge" | "return" },
  sent: SentAgain & { readonly onExpiry: "charge" | "return" },
): boolean {
  const haveSameQuantities =
    sent.quantities === undefined ||
    canonicalJson(JSON.parse(stored.quantities)) === canonicalJson(presentQuantities(sent.quantities));
  return isSameUsage(stored, sent) && haveSameQuantities && stored.onExpiry === sent.onExpiry;
}
