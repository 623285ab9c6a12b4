import { type PurserError, refusalIn } from "../errors.ts";
import type { Ctx } from "../runtime.ts";
import { recordEvent } from "./events.ts";
import type { EventOutput } from "./responses.ts";
import type { EventInput } from "./schemas.ts";

/** An event that was refused, by its id if that could be read. */
export interface EventRefusal {
  readonly eventId: string | null;
  readonly refusal: PurserError;
}

/** What arrived as an element of a list: an event, or what is wrong with it. */
export type ListElement = { readonly input: EventInput } | EventRefusal;

/**
 * Records a list of events, each for itself, and answers in order. Events of one user, or under one id, follow one
 * another as in the list; others do not wait for them.
 */
export async function recordList(
  ctx: Ctx,
  elements: readonly ListElement[],
): Promise<readonly (EventOutput | EventRefusal)[]> {
  const queues = new Map<string, Promise<unknown>>();
  const results = elements.map((element) => {
    if (!("input" in element)) return element;
    const { input } = element;
    const places = [`user ${input.userId}`, `event ${input.eventId}`];
    const turn = Promise.allSettled(places.map((place) => queues.get(place)));
    const result = turn.then(() => recordOne(ctx, input));
    for (const place of places) queues.set(place, result);
    return result;
  });
  // Every event has its outcome before a bug in one of them is told.
  await Promise.allSettled(results);
  return Promise.all(results);
}

async function recordOne(ctx: Ctx, input: EventInput): Promise<EventOutput | EventRefusal> {
  try {
    return (await recordEvent(ctx, input)).output;
  } catch (error) {
    const refusal = refusalIn(error);
    if (refusal === null) throw error;
    return { eventId: input.eventId, refusal };
  }
}
