import type { PaymentChange } from "../../src/payments/event.ts";
import { nextStep, offersNow } from "../../src/payments/next-step.ts";
import { offersOf, planOffer } from "../../src/payments/offer.ts";
import type { StripeSetting } from "../../src/payments/setting.ts";
import { type Motion, motionOf, type PaymentState, stateOf } from "../../src/payments/state.ts";
import type { StoredGrant, StoredPayment } from "../../src/payments/stored-payment.ts";
import { steps } from "./steps.ts";

type Pack = NonNullable<
  Parameters<typeof planOffer>[1]["packOf"] extends (pack: string) => infer Found ? Found : never
>;

interface PureBalance {
  remaining: number;
  isRevoked: boolean;
  isExpired: boolean;
}

/** What the tables hold of payments and their balances, in plain objects. */
export interface PureBooks {
  readonly payments: StoredPayment[];
  readonly balances: Record<string, PureBalance>;
}

export interface PureShop {
  readonly setting: StripeSetting;
  readonly pack: Pack;
}

const motionsOf = (state: PaymentState, accountId: number): Motion[] =>
  state.grants.filter((grant) => grant.accountId === accountId).flatMap((grant) => motionOf(grant, state.money) ?? []);

/** Takes an event as `takeEvent` does, by the pure parts of src, with books in place of the database. */
export function takePurely(books: PureBooks, { setting, pack }: PureShop, change: PaymentChange): void {
  const isInvoice = change.facts.some(({ kind }) => kind === "invoice");
  if (isInvoice && offersOf(change.facts, setting, null).length === 0) return;
  const granting = { setting, mayGrant: isInvoice || change.facts.some(({ kind }) => kind === "session") };
  for (;;) {
    const rows = books.payments.filter(({ names }) => names.some((name) => change.names.includes(name)));
    const state = stateOf(rows, change, null);
    const step = nextStep(state, offersNow(state, granting), null);
    if (step.kind === "none") return;
    if (step.kind === "store") {
      store(books, state, state.grants, step);
      return;
    }
    if (step.kind === "bring") {
      const grants = bring(books, state.grants, motionsOf(state, step.accountId));
      store(books, state, grants, { status: "granted", reason: null });
      continue;
    }
    const terms = { currency: setting.currency, note: change.note, nowMs: 0, packOf: () => pack };
    const planned = step.offers.map((offer) =>
      planOffer(offer, { ...terms, newId: (index) => `crb_of_${offer.parts[0]?.externalRef}_${index}` }),
    );
    const issued = planned.find((plan) => typeof plan !== "string");
    if (issued === undefined || typeof issued === "string") throw new Error(`nothing was granted: ${planned}`);
    const grantSeq = Object.keys(books.balances).length + 1;
    const grants = issued.flatMap(({ balances }) =>
      balances.map(({ id, unit, amountSteps }): StoredGrant => {
        books.balances[id] = { remaining: amountSteps, isRevoked: false, isExpired: false };
        const book = { balanceId: id, accountId: 1, userId: step.userId, packId: pack.id, packItemId: "", unit };
        const amounts = { initialSteps: amountSteps, remainingSteps: amountSteps, expiresAtMs: 1 };
        const due = { part: 0, of: 1, dueSteps: steps(0), takenSteps: steps(0), isSurplus: 0 as const };
        return { ...book, ...amounts, ...due, grantedAtMs: grantSeq, grantSeq };
      }),
    );
    const motions = grants.flatMap((grant) => motionOf(grant, state.money) ?? []);
    store(books, state, bring(books, grants, motions), { status: "granted", reason: null });
    return;
  }
}

/** A hold of a balance returns, or what it held counts as taken, as the database does it (U9, S4). */
export function returnPurely(books: PureBooks, balanceId: string, amountSteps: number): void {
  const balance = books.balances[balanceId];
  if (balance === undefined) throw new Error("a hold is of a balance");
  if (!balance.isRevoked) {
    balance.remaining += amountSteps;
    return;
  }
  const count = (grant: StoredGrant): StoredGrant =>
    grant.balanceId === balanceId ? { ...grant, takenSteps: steps(grant.takenSteps + amountSteps) } : grant;
  const counted = books.payments.map((payment) => ({ ...payment, grants: payment.grants.map(count) }));
  books.payments.splice(0, counted.length, ...counted);
}

/** Books that are written without a change to these. */
export function copyBooks({ payments, balances }: PureBooks): PureBooks {
  const copies = Object.entries(balances).map(([id, balance]) => [id, { ...balance }] as const);
  return { payments: [...payments], balances: Object.fromEntries(copies) };
}

/** What insert-payment-motions.ts does in SQL. */
function bring(books: PureBooks, grants: readonly StoredGrant[], motions: readonly Motion[]): StoredGrant[] {
  return grants.map((grant) => {
    const motion = motions.find(({ balanceId }) => balanceId === grant.balanceId);
    const balance = books.balances[grant.balanceId];
    if (motion === undefined || balance === undefined) return grant;
    const over = grant.takenSteps - motion.dueSteps;
    const delta = motion.isWhole ? -balance.remaining : Math.max(over, -balance.remaining);
    balance.remaining += delta;
    balance.isRevoked = motion.isWhole;
    const { part, of } = motion;
    return { ...grant, part, of, dueSteps: steps(motion.dueSteps), takenSteps: steps(grant.takenSteps - delta) };
  });
}

type Standing = Pick<StoredPayment, "status" | "reason">;

function store(books: PureBooks, state: PaymentState, grants: readonly StoredGrant[], standing: Standing): void {
  const { known, names, facts } = state;
  const others = books.payments.filter((payment) => !known.includes(payment));
  const createdAtMs = known[0]?.createdAtMs ?? 1 + Math.max(0, ...others.map((payment) => payment.createdAtMs));
  const { status, reason } = standing;
  const common = { customer: null, settledBy: null, tellAtMs: null, version: 1, writtenBy: "", customerUser: null };
  // In the order of the tables' keys.
  const rows = {
    names: names.toSorted(),
    facts: facts.toSorted((a, b) => (`${a.kind} ${a.id}` < `${b.kind} ${b.id}` ? -1 : 1)),
    grants: grants.toSorted((a, b) => a.grantSeq - b.grantSeq),
  };
  const kept = { id: "", status, reason, ...common, createdAtMs, ...rows };
  // Only their order counts: so equal books are written alike.
  const inOrder = [...others, kept].toSorted((a, b) => a.createdAtMs - b.createdAtMs);
  const numbered = inOrder.map((payment, index) => ({ ...payment, id: `pay_${index}`, createdAtMs: index }));
  books.payments.splice(0, books.payments.length, ...numbered);
}
