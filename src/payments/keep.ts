import type { Standing } from "./next-step.ts";
import type { PaymentState } from "./state.ts";

/** Whether it still matters whose it is. Whom a grant was for, its account says; an erased person is not named again (E4). */
const isForSomebody = ({ status, reason }: Standing): boolean => status !== "granted" && reason !== "person_erased";

/** The customer that is stored of it. */
export const customerToKeep = ({ customer }: PaymentState, standing: Standing): string | null =>
  isForSomebody(standing) ? customer : null;

/** What is stored of its facts. */
export function factsToKeep({ facts }: PaymentState, standing: Standing): PaymentState["facts"] {
  if (isForSomebody(standing)) return facts;
  return facts.map((fact) => (fact.userId === null ? fact : { ...fact, userId: null }));
}
