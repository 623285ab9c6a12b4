import { type PurserError, refusalIn } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import { recordEvent } from "./events.ts";
import type { EventOutput } from "./responses.ts";
import type { EventInput } from "./schemas.ts";

/** The refusal of one event, with its id if that can be read. */
export interface EventRefusal {
  readonly eventId: string | null;
  readonly refusal: PurserError;
}

/** An element of a list: an event, or why it is refused. */
export type ListElement = { readonly input: EventInput } | EventRefusal;

/**
 * Records the events of a list one by one, and returns their results in order. Events of one user or with one id run in the
 * order of the list. Other events do not wait for them.
 */
export async function recordList(
  ctx: TenantCtx,
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
  // If one event fails with a bug, it is thrown only after all events are done.
  await Promise.allSettled(results);
  return Promise.all(results);
}

async function recordOne(ctx: TenantCtx, input: EventInput): Promise<EventOutput | EventRefusal> {
  try {
    return (await recordEvent(ctx, input)).output;
  } catch (error) {
    const refusal = refusalIn(error);
    if (refusal === null) throw error;
    return { eventId: input.eventId, refusal };
  }
}
