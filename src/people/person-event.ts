import { changesProperties, type PropertyChanges } from "./id-properties.ts";

/** The kind of event by which an id claims another id. */
export type Via = "identify" | "alias";

/** What an event says of another id than its own. */
export interface Link {
  readonly otherId: string;
  readonly via: Via;
}

/** The parts of an event that concern people. */
export interface PersonEvent extends PropertyChanges {
  readonly uuid: string;
  readonly distinctId: string;
  readonly isPersonless: boolean;
  readonly isIdentify: boolean;
  /** Sent by an SDK that knows its user: `$is_identified: true`. */
  readonly isSignedIn: boolean;
  readonly link: Link | null;
}

/** Whether the event's changes depend on what is stored about people. */
export function needsStoredPeople(event: PersonEvent): boolean {
  return !event.isPersonless && (event.link !== null || changesProperties(event));
}
