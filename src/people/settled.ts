import { type Claims, sentLink } from "./claims.ts";
import { changesProperties, type IdProperties } from "./id-properties.ts";
import type { PersonEvent } from "./person-event.ts";

/** What an event did, or found done. While the versions stand, the same again changes nothing and warns of nothing. */
export interface SettledId {
  readonly distinctId: string;
  readonly properties: { readonly version: number; readonly bytes: number; readonly changes: readonly string[] } | null;
  readonly links: readonly SettledLink[];
}

export interface SettledLink {
  /** What was sent: `sentLink`. */
  readonly link: string;
  readonly claimed: string;
  readonly version: number;
}

/** The most events of a request that are worth remembering: a client that repeats itself sends few. */
const SETTLED_EVENTS_MAX = 100;

/** What these events, none of which was warned of, would find done if they came again. */
export function settledIds(
  events: readonly PersonEvent[],
  claims: Claims,
  propertiesOf: (distinctId: string) => { readonly own: IdProperties; readonly version: number } | null,
): SettledId[] {
  if (events.length > SETTLED_EVENTS_MAX) return [];
  const byId = Map.groupBy(events, ({ distinctId }) => distinctId);
  return Array.from(byId, ([distinctId, ofId]) => {
    const links = ofId.flatMap(({ link }) => {
      const version = link === null ? null : claims.standing(distinctId, link);
      return link === null || version === null ? [] : [{ link: sentLink(link), claimed: link.otherId, version }];
    });
    const found = propertiesOf(distinctId);
    const settled = ofId.filter((event) => changesProperties(event) && found?.own.isSettled(event));
    const changes = [...new Set(settled.flatMap((event) => event.changes ?? []))];
    const properties = found === null ? null : { version: found.version, bytes: found.own.storedBytes, changes };
    return { distinctId, properties, links };
  });
}
