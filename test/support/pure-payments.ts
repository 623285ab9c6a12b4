import { stripeEventInput } from "../../src/api/payments/receive-stripe-event.ts";
import type { PaymentBalanceChange } from "../../src/books/ledger/insert-clawbacks.ts";
import { newPayer, type Payer, payerAfter } from "../../src/payments/carry.ts";
import { deriveMoney } from "../../src/payments/money.ts";
import {
  grantsToAccount,
  newGrant,
  nextStep,
  offersNow,
  type PaymentStatusAndReason,
  planChanges,
  planEffect,
  type Rejection,
  statusOfKnown,
} from "../../src/payments/next-step.ts";
import type { Offer } from "../../src/payments/offer.ts";
import { type PlannedOffer, planOffer } from "../../src/payments/plan-offer.ts";
import { derivePaymentState, openInvoice, type PaymentState } from "../../src/payments/state.ts";
import type { StoredGrant, StoredPayment } from "../../src/payments/stored-payment.ts";
import { type PaymentChange, readChange } from "../../src/payments/stripe-event.ts";
import type { StripeSetting } from "../../src/payments/stripe-setting.ts";
import { minor } from "./minor.ts";

type Pack = NonNullable<
  Parameters<typeof planOffer>[1]["packOf"] extends (pack: string) => infer Found ? Found : never
>;

interface PureBalance {
  remaining: number;
  isRevoked: boolean;
  isExpired: boolean;
  /** The amount in open holds, and the owed part of it (S4). */
  held: number;
  owed: number;
}

/** The tables of payments and balances as plain objects, for one user. */
export interface PureAccounts {
  readonly payments: StoredPayment[];
  readonly balances: Record<string, PureBalance>;
  /** By Stripe customer. */
  readonly payers: Record<string, Payer>;
}

export interface PureShop {
  readonly setting: StripeSetting;
  readonly packOf: (pack: string) => Pack | null;
}

/** The change of a payment that an event causes. Throws for an ignored event. */
export function changeOf(event: object): PaymentChange {
  const change = readChange(stripeEventInput.parse(event));
  if ("ignored" in change) throw new Error(`The event is ignored: ${change.ignored}.`);
  return change;
}

const ACCOUNT = 1;
const GRANTING = ["session", "invoice", "intent", "invoice_payment"];

/** Processes an event like `handleStripeEvent`, with the pure functions of src, and with plain objects instead of the database. */
export function takePurely(books: PureAccounts, shop: PureShop, change: PaymentChange): void {
  const { setting, packOf } = shop;
  const granting = { setting, mayGrant: change.facts.some(({ kind }) => GRANTING.includes(kind)) };
  let rejection: Rejection | null = null;
  for (;;) {
    const rows = books.payments.filter((payment) => payment.names.some((name) => change.names.includes(name)));
    const state = derivePaymentState(
      rows.map((row) => withBalances(books, row)),
      change,
      null,
    );
    const payer = books.payers[change.customer ?? ""] ?? newPayer(change.customer ?? "", "payer");
    const step = nextStep(state, offersNow(state, granting, payer), rejection, granting);
    if (step.kind === "none") return;
    if (step.kind === "store") {
      store(books, state, step.effect, step.planned, payer);
      return;
    }
    if (step.kind === "adjust") {
      const changes = planChanges(state, grantsToAccount(state, step.accountId));
      store(books, state, statusOfKnown(state), null, payer);
      applyChanges(books, changes);
    }
    if (step.kind === "grant") {
      const terms = { currency: setting.currency, note: change.note, nowMs: 0, packOf, trials: new Set(payer.trials) };
      const granted = grantOffers(books, state, step.offers, payer, terms);
      if (granted !== null) rejection = granted;
    }
  }
}

function grantOffers(
  books: PureAccounts,
  state: PaymentState,
  offers: readonly Offer[],
  payer: Payer,
  terms: Omit<Parameters<typeof planOffer>[1], "newId">,
): Rejection | null {
  const plans = offers.map((offer) =>
    planOffer(offer, { ...terms, newId: (index) => `crb_of_${offer.parts[0]?.externalRef}_${index}` }),
  );
  const planned = plans.find((plan) => typeof plan !== "string") ?? plans[0] ?? "no_user";
  if (typeof planned === "string") return planned;
  const facts = planned.account === null ? state.facts : [...state.facts, planned.account.fact];
  const issued = planned.grants.flatMap(({ balances }) => balances);
  const changes = planChanges({ money: deriveMoney(facts) }, issued.map(newGrant));
  let grantSeq = Object.keys(books.balances).length;
  const grants = planned.grants.flatMap(({ packId, balances }) =>
    balances.map(({ id, unit, amountMinor }): StoredGrant => {
      books.balances[id] = { remaining: amountMinor, isRevoked: false, isExpired: false, held: 0, owed: 0 };
      grantSeq += 1;
      return {
        ...{ balanceId: id, accountId: ACCOUNT, userId: "u", packId, packItemId: "", unit },
        ...{ initialMinor: amountMinor, remainingMinor: amountMinor },
        ...{ expiresAtMs: 1, dueMinor: minor(0), clawedBackMinor: minor(0), operatorSteps: 0 },
        ...{ isSurplus: 0, isClosed: 0, isErased: 0, grantedAtMs: grantSeq, grantSeq },
      };
    }),
  );
  store(books, state, planEffect(planned), planned, payer, grants);
  applyChanges(books, changes);
  return null;
}

/** Returns a hold. The owed part counts as taken, and all of it if the balance is revoked, as in the database (U9, S4). */
export function returnPurely(books: PureAccounts, balanceId: string, amountMinor: number): void {
  const balance = books.balances[balanceId];
  if (balance === undefined) throw new Error("The hold's balance is unknown.");
  const taken = balance.isRevoked ? amountMinor : Math.min(balance.owed, amountMinor);
  balance.remaining += amountMinor - taken;
  balance.held -= amountMinor;
  balance.owed = Math.min(balance.owed - taken, balance.held);
  changeGrants(books, (grant) =>
    grant.balanceId === balanceId ? { ...grant, clawedBackMinor: minor(grant.clawedBackMinor + taken) } : grant,
  );
}

function changeGrants({ payments }: PureAccounts, change: (grant: StoredGrant) => StoredGrant): void {
  const changed = payments.map((payment) => ({ ...payment, grants: payment.grants.map(change) }));
  payments.splice(0, changed.length, ...changed);
}

/** A copy. Its changes do not affect `books`. */
export function copyBooks({ payments, balances, payers }: PureAccounts): PureAccounts {
  const copies = Object.entries(balances).map(([id, balance]) => [id, { ...balance }] as const);
  return { payments: [...payments], balances: Object.fromEntries(copies), payers: { ...payers } };
}

const withBalances = ({ balances }: PureAccounts, payment: StoredPayment): StoredPayment => ({
  ...payment,
  grants: payment.grants.map((grant) => ({
    ...grant,
    remainingMinor: minor(balances[grant.balanceId]?.remaining ?? 0),
  })),
});

/** Applies changes, as insert-clawbacks.ts does in SQL. */
function applyChanges(books: PureAccounts, changes: readonly PaymentBalanceChange[]): void {
  changeGrants(books, (grant) => {
    const change = changes.find(({ balanceId }) => balanceId === grant.balanceId);
    const balance = books.balances[grant.balanceId];
    if (change === undefined || balance === undefined) return grant;
    const over = grant.clawedBackMinor - change.dueMinor;
    const delta = change.isWhole ? -balance.remaining : Math.max(over, -balance.remaining);
    balance.remaining += delta;
    balance.isRevoked = change.isWhole;
    const clawedBackMinor = grant.clawedBackMinor - delta;
    balance.owed = change.isWhole ? 0 : Math.max(0, Math.min(change.dueMinor - clawedBackMinor, balance.held));
    return { ...grant, dueMinor: minor(change.dueMinor), clawedBackMinor: minor(clawedBackMinor) };
  });
}

/** Stores a payment and its customer, as store-payment.ts and stored-payer.ts do in SQL. */
function store(
  books: PureAccounts,
  state: PaymentState,
  standing: PaymentStatusAndReason,
  planned: PlannedOffer | null,
  payer: Payer,
  granted: readonly StoredGrant[] = [],
): void {
  const invoice = openInvoice(state);
  const account = planned?.account ?? null;
  storeOne(books, account === null ? state : { ...state, facts: [...state.facts, account.fact] }, standing, granted);
  numberPayments(books);
  if (planned !== null && account !== null && invoice !== null) {
    books.payers[payer.key] = payerAfter(payer, invoice, account, planned.marks);
  }
}

function storeOne(
  books: PureAccounts,
  state: PaymentState,
  { status, reason }: PaymentStatusAndReason,
  granted: readonly StoredGrant[],
): void {
  const { known, names, facts } = state;
  const ids = known.map(({ id }) => id);
  const others = books.payments.filter(({ id }) => !ids.includes(id));
  const createdAtMs = known[0]?.createdAtMs ?? 1 + Math.max(0, ...others.map((payment) => payment.createdAtMs));
  const common = { customer: null, settledBy: null, notifyAtMs: null, version: 1, writtenBy: "", customerUser: null };
  const stored = books.payments.filter(({ id }) => ids.includes(id)).flatMap(({ grants }) => grants);
  const surplus = new Set(state.grants.filter(({ isSurplus }) => isSurplus === 1).map(({ balanceId }) => balanceId));
  const earlierGrants = stored.map((grant) =>
    surplus.has(grant.balanceId) ? { ...grant, isSurplus: 1 as const } : grant,
  );
  // The rows are in the order of the tables' keys.
  const rows = {
    names: names.toSorted(),
    facts: facts.toSorted((a, b) => (`${a.kind} ${a.id}` < `${b.kind} ${b.id}` ? -1 : 1)),
    grants: [...earlierGrants, ...granted].toSorted((a, b) => a.grantSeq - b.grantSeq),
  };
  const payment = { id: ids[0] ?? `of ${names[0]}`, status, reason, ...common, createdAtMs, ...rows };
  books.payments.splice(0, books.payments.length, ...others, payment);
}

/** Numbers payments by their order, so that equal books have equal text. */
function numberPayments({ payments }: PureAccounts): void {
  const inOrder = payments.toSorted((a, b) => a.createdAtMs - b.createdAtMs);
  const numbered = inOrder.map((payment, index) => ({ ...payment, id: `pay_${index}`, createdAtMs: index }));
  payments.splice(0, payments.length, ...numbered);
}
