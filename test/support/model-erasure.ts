import { type Answer, type createModel, reject } from "./model.ts";
import type { createRefunds } from "./model-refunds.ts";
import type { Request } from "./requests.ts";

type Model = ReturnType<typeof createModel>;

/** The users for whom a request writes. */
function usersOf(model: Model, request: Request): readonly string[] {
  if (request.kind === "grant" || request.kind === "refund" || request.kind === "own amount") return [request.userId];
  if (request.kind === "event" || request.kind === "reserve") return [request.use.userId];
  if (request.kind === "revoke" || request.kind === "adjust") {
    return model.balances.filter(({ id }) => id === request.balanceId).map(({ userId }) => userId);
  }
  return [];
}

/** A model of erasures (E1 to E4). An erased user's data belongs to nobody, and nothing is written for the user until a lift. */
export function createErasures(model: Model, refund: ReturnType<typeof createRefunds>) {
  const erased = new Set<string>();
  const names = new Set<string>();
  const pseudonymise = (userId: string): void => {
    const name = `erased ${names.size}`;
    names.add(name);
    for (const hold of [...model.holds.values()].filter(({ use }) => use.userId === userId))
      model.holds.delete(hold.id);
    for (const [id, { use }] of [...model.events]) if (use.userId === userId) model.events.delete(id);
    for (const b of model.balances.filter((balance) => balance.userId === userId)) {
      Object.assign(b, { userId: name, ref: null, revoked: true, remaining: 0n });
    }
    refund.forget(userId);
    model.limits.forget(userId);
  };
  return {
    isErased: (userId: string): boolean => erased.has(userId),
    /** The rejection of a write for an erased user, or for a row that an erased user left. */
    reject: (request: Request): Answer | null =>
      usersOf(model, request).some((userId) => erased.has(userId) || names.has(userId))
        ? reject(409, "person_erased")
        : null,
    erase(userId: string): Answer {
      const replayed = erased.has(userId);
      if (!replayed) pseudonymise(userId);
      erased.add(userId);
      return { status: 200, body: "completed", replayed };
    },
    lift(userId: string): Answer {
      erased.delete(userId);
      return { status: 200 };
    },
  };
}
