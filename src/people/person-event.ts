import type { Via } from "./claims.ts";
import { changesProperties, type PropertyChanges } from "./id-properties.ts";

/** The parts of an event that concern people. */
export interface PersonEvent extends PropertyChanges {
  readonly uuid: string;
  readonly distinctId: string;
  readonly isPersonless: boolean;
  readonly isIdentify: boolean;
  readonly link: { readonly otherId: string; readonly via: Via } | null;
}

/** Whether the event's changes depend on what is stored about people. */
export function needsStoredPeople(event: PersonEvent): boolean {
  return !event.isPersonless && (event.link !== null || changesProperties(event));
}
