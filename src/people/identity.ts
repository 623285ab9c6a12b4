import { type Birth, type Known, type PeopleChange, PersonGraph } from "./person-graph.ts";
import { type Changes, changedProperties } from "./person-properties.ts";

/** What an event says about who somebody is. */
export interface IdentityEvent extends Changes {
  readonly uuid: string;
  readonly distinctId: string;
  readonly isPersonless: boolean;
  readonly isIdentify: boolean;
  readonly link: { readonly otherId: string; readonly via: "identify" | "alias" } | null;
}

/** What events change about people. */
export interface IdentityChange extends PeopleChange {
  /** By the event's UUID: why it linked or set nothing. */
  readonly warnings: ReadonlyMap<string, string>;
}

/** Plays events, in their order, over what is known (P2, P3). Pure: nothing is stored here. */
export function planIdentity(events: readonly IdentityEvent[], known: Known, birth: Birth): IdentityChange {
  const graph = new PersonGraph(known, birth);
  const warnings = new Map<string, string>();
  for (const event of events) {
    if (event.isPersonless) continue;
    const { uuid, distinctId, link, isIdentify } = event;
    const refusal = link === null ? null : graph.join(distinctId, link.otherId, link.via);
    if (refusal !== null) warnings.set(uuid, refusal);
    const person = graph.findOrBear(distinctId, isIdentify ? "identify" : "capture");
    const properties = changedProperties(person.properties, event);
    const isIdentified = person.isIdentified || isIdentify;
    if (properties === "too large") warnings.set(uuid, "the person's properties would grow too large");
    if (properties !== null && properties !== "too large") graph.update({ ...person, properties, isIdentified });
    else if (isIdentified !== person.isIdentified) graph.update({ ...person, isIdentified });
  }
  return { ...graph.change(), warnings };
}
