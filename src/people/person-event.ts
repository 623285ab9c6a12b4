import { changesProperties, type PropertyChanges } from "./id-properties.ts";

/** The kind of event by which an id claims another id. */
export type Via = "identify" | "alias";

/** A link from an event's own id to another id. */
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

/**
 * Whether the event makes its own id a user (P2). A personless event does so only as an `$identify` or, with a secret key, as a
 * `$set`. `isVerified`: whether it was sent with a secret key.
 */
export function makesUser(event: PersonEvent, isVerified: boolean): boolean {
  if (event.isIdentify) return true;
  return event.isPersonless ? isVerified && changesProperties(event) : isVerified || event.isSignedIn;
}

/** Whether the event's changes depend on what is stored about people. */
export function needsStoredPeople(event: PersonEvent): boolean {
  return !event.isPersonless && (event.link !== null || changesProperties(event));
}
