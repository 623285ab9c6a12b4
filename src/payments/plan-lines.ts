import { addFractions, type Fraction } from "../books/amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import {
  creditOf,
  fraction,
  fractionText,
  leastOf,
  minus,
  mostOf,
  ONE,
  readFraction,
  roundUp,
  type StoredLine,
  times,
  ZERO,
} from "./line.ts";
import { dueOf } from "./share.ts";
import type { PaymentState } from "./state.ts";
import type { StoredGrant } from "./stored-payment.ts";

/** What a balance of a payment needs to be moved. `remainingSteps` counts what its batch returns of due holds. */
export type MovingGrant = Pick<
  StoredGrant,
  | "balanceId"
  | "accountId"
  | "line"
  | "initialSteps"
  | "remainingSteps"
  | "dueSteps"
  | "takenSteps"
  | "operatorSteps"
  | "isSurplus"
  | "isClosed"
  | "isErased"
>;

/** A payment's line while it is planned. */
export interface PlannedLine {
  readonly payment: PaymentState;
  readonly grants: readonly MovingGrant[];
  readonly before: StoredLine | null;
  line: StoredLine;
}

/** What of a payment went back at Stripe, as a share of one of its balances (S4). */
export const shareOfGrant = ({ money }: Pick<PaymentState, "money">, { isSurplus }: Pick<MovingGrant, "isSurplus">) =>
  isSurplus === 1 ? ONE : money.share;

/** The share of a line that paid debts: `p` of S6. */
const paidShare = ({ paid, net }: StoredLine): Fraction => fraction(paid, net);

/** What is due of a balance: S4's share, and `r` and `p` of its line, at most all. */
export function dueOfGrant(share: Fraction, grant: Pick<MovingGrant, "initialSteps">, line: StoredLine | null): Steps {
  if (line === null) return dueOf(grant.initialSteps, share);
  const all = addFractions(addFractions(share, readFraction(line.returned)), paidShare(line));
  return dueOf(grant.initialSteps, leastOf(all, ONE));
}

/** How a balance would stand when so much of it is due, as insert-payment-motions.ts makes it. */
export function moved(grant: MovingGrant, due: Steps): { readonly remaining: number; readonly taken: number } {
  const { remainingSteps: remaining, takenSteps: taken } = grant;
  if (due === grant.dueSteps || grant.isClosed === 1) return { remaining, taken };
  const delta = due === grant.initialSteps ? -remaining : Math.max(taken - due, -remaining);
  return { remaining: remaining + delta, taken: taken - delta };
}

const ofOperator = ({ operatorSteps }: MovingGrant): number => Math.max(0, operatorSteps);

/**
 * Applies what was credited of a line since: takes the share `r` as far as every balance still has it, and says what the line owes.
 * What was spent of it was credited for nothing; so was what is refunded of it besides.
 */
export function settleLine({ payment, grants, line }: Pick<PlannedLine, "payment" | "grants" | "line">): StoredLine {
  const [first] = grants;
  if (first === undefined) return line;
  const share = shareOfGrant(payment, first);
  const credited = creditOf(payment.facts, line);
  const news = minus(credited, readFraction(line.credited));
  let returned = readFraction(line.returned);
  if (news.numerator > 0n) {
    const has = grants.map((grant) => {
      const { remaining } = moved(grant, dueOfGrant(share, grant, line));
      return fraction(remaining + ofOperator(grant), grant.initialSteps);
    });
    const part = times(news, fraction(1, line.net));
    returned = addFractions(returned, has.reduce(leastOf, leastOf(part, minus(ONE, returned))));
  }
  const after = { ...line, credited: fractionText(credited), returned: fractionText(returned) };
  return { ...after, owed: owedOf(share, grants, after) };
}

/** What a line adds to its debt, rounded up. */
function owedOf(share: Fraction, grants: readonly MovingGrant[], line: StoredLine): number {
  const returned = readFraction(line.returned);
  const credited = addFractions(returned, paidShare(line));
  const lack = grants
    .map((grant) => {
      const due = dueOfGrant(share, grant, line);
      return fraction(Math.max(0, due - moved(grant, due).taken - ofOperator(grant)), grant.initialSteps);
    })
    .reduce(mostOf, ZERO);
  const beyond = mostOf(ZERO, minus(addFractions(share, credited), ONE));
  const refunded = leastOf(addFractions(lack, beyond), credited);
  const spent = minus(readFraction(line.credited), times(returned, fraction(line.net)));
  return roundUp(addFractions(spent, times(refunded, fraction(line.net))));
}

/** Whether what a line takes and owes depends on what its balances have. Then its batch aborts where they moved. */
export const isJudged = ({ returned, paid }: StoredLine): boolean => paid > 0 || returned[0] !== "0";
