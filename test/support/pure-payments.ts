import { booksOf, type EventBooks, linesAfter } from "../../src/payments/books.ts";
import type { Credited } from "../../src/payments/decide.ts";
import { type PaymentChange, readChange } from "../../src/payments/event.ts";
import type { StoredDebt } from "../../src/payments/line.ts";
import { nextStep, offersNow, type Refusal, standingOfKnown } from "../../src/payments/next-step.ts";
import { type Offer, offersOf, planOffer } from "../../src/payments/offer.ts";
import { type AccountPlan, type Issued, type PlannedMotion, planAccount } from "../../src/payments/plan.ts";
import { stripeEventInput } from "../../src/payments/schemas.ts";
import type { PaymentState } from "../../src/payments/state.ts";
import type { StoredGrant, StoredPayment } from "../../src/payments/stored-payment.ts";
import type { StripeSetting } from "../../src/payments/stripe-setting.ts";
import { steps } from "./steps.ts";

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
export interface PureBooks {
  readonly payments: StoredPayment[];
  readonly balances: Record<string, PureBalance>;
  readonly debts: StoredDebt[];
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
const GRANTING = ["session", "invoice", "intent"];
const MORE = { nowMs: 0, newDebtId: () => "dbt_1" };

/** Processes an event like `takeEvent`, with the pure functions of src, and with plain objects instead of the database. */
export function takePurely(books: PureBooks, shop: PureShop, change: PaymentChange, nowMs = 0): void {
  const { setting, packOf } = shop;
  const credits = change.credits.filter(({ price }) => setting.prices.some((listed) => listed.price === price));
  const isInvoice = change.facts.some(({ kind }) => kind === "invoice");
  if (isInvoice && credits.length === 0 && offersOf(change.facts, setting, null).length === 0) return;
  const credited: Credited[] = credits.flatMap(({ invoice, fact }) =>
    invoice === null ? [] : [{ invoice, facts: [fact] }],
  );
  const granting = { setting, mayGrant: change.facts.some(({ kind }) => GRANTING.includes(kind)) };
  const more = new Set<string>();
  const terms = { ...MORE, nowMs };
  let refusal: Refusal | null = null;
  for (;;) {
    const names = [...change.names, ...credited.map(({ invoice }) => invoice), ...more];
    const rows = books.payments.filter((payment) => payment.names.some((name) => names.includes(name)));
    const read = booksOf(
      rows.map((row) => withBalances(books, row)),
      change,
      credited,
      {
        customerUser: null,
        debts: books.debts,
      },
    );
    const step = nextStep(read, offersNow(read.eventPayment, granting), refusal, terms);
    if (step.kind === "none") return;
    if (step.kind === "read") for (const name of step.names) more.add(name);
    if (step.kind === "store") {
      store(books, read, EMPTY, step, true);
      return;
    }
    if (step.kind === "adjust") {
      const plan = planAccount(read, { ...terms, accountId: step.accountId, deficits: step.deficits });
      applyMotions(books, plan.motions);
      store(books, read, plan, standingOfKnown(read.eventPayment), step.isLast);
    }
    if (step.kind === "grant") {
      const terms = { currency: setting.currency, note: change.note, nowMs, packOf, trials: trialsOf(books) };
      const granted = grantOffers(books, read, step.offers, terms);
      if (typeof granted === "string") refusal = granted;
    }
  }
}

const EMPTY = { motions: [], lines: [], debts: [], payers: [] };
const trialsOf = (books: PureBooks): Set<string> =>
  new Set(Object.keys(books.balances).flatMap((id) => /^crb_of_(stripe:trial:.*)_\d+$/.exec(id)?.[1] ?? []));

function grantOffers(
  books: PureBooks,
  read: EventBooks,
  offers: readonly Offer[],
  terms: Omit<Parameters<typeof planOffer>[1], "newId">,
): Refusal | null {
  const planned = offers.map((offer) =>
    planOffer(offer, { ...terms, newId: (index) => `crb_of_${offer.parts[0]?.externalRef}_${index}` }),
  );
  const issued = planned.find((plan) => typeof plan !== "string") ?? planned[0] ?? "no_user";
  if (typeof issued === "string") return issued;
  if (issued.length === 0) return "nothing";
  const lines = issued.map(
    ({ line, grant }): Issued => ({ payment: read.eventPayment, line, balances: grant.balances }),
  );
  const plan = planAccount(read, { ...MORE, nowMs: terms.nowMs, accountId: ACCOUNT, issued: lines });
  let grantSeq = Object.keys(books.balances).length;
  const grants = issued.flatMap(({ line, grant: { packId, balances } }) =>
    balances.map(({ id, unit, amountSteps }): StoredGrant => {
      books.balances[id] = { remaining: amountSteps, isRevoked: false, isExpired: false, held: 0, owed: 0 };
      grantSeq += 1;
      return {
        ...{
          balanceId: id,
          accountId: ACCOUNT,
          userId: read.eventPayment.facts.find((f) => f.userId !== null)?.userId ?? "u",
        },
        ...{ packId, packItemId: "", unit, line, initialSteps: amountSteps, remainingSteps: amountSteps },
        ...{ expiresAtMs: 1, dueSteps: steps(0), takenSteps: steps(0), operatorSteps: 0 },
        ...{ isSurplus: 0, isClosed: 0, isErased: 0, grantedAtMs: grantSeq, grantSeq },
      };
    }),
  );
  store(books, read, plan, { status: "granted", reason: null }, true, grants);
  applyMotions(books, plan.motions);
  return null;
}

/** Returns a hold. The owed part counts as taken, and all of it if the balance is revoked, as in the database (U9, S4). */
export function returnPurely(books: PureBooks, balanceId: string, amountSteps: number): void {
  const balance = books.balances[balanceId];
  if (balance === undefined) throw new Error("The hold's balance is unknown.");
  const taken = balance.isRevoked ? amountSteps : Math.min(balance.owed, amountSteps);
  balance.remaining += amountSteps - taken;
  balance.held -= amountSteps;
  balance.owed = Math.min(balance.owed - taken, balance.held);
  changeGrants(books, (grant) =>
    grant.balanceId === balanceId ? { ...grant, takenSteps: steps(grant.takenSteps + taken) } : grant,
  );
}

function changeGrants({ payments }: PureBooks, change: (grant: StoredGrant) => StoredGrant): void {
  const changed = payments.map((payment) => ({ ...payment, grants: payment.grants.map(change) }));
  payments.splice(0, changed.length, ...changed);
}

/** A copy. Its changes do not affect `books`. */
export function copyBooks({ payments, balances, debts }: PureBooks): PureBooks {
  const copies = Object.entries(balances).map(([id, balance]) => [id, { ...balance }] as const);
  return { payments: [...payments], balances: Object.fromEntries(copies), debts: [...debts] };
}

const withBalances = ({ balances }: PureBooks, payment: StoredPayment): StoredPayment => ({
  ...payment,
  grants: payment.grants.map((grant) => ({
    ...grant,
    remainingSteps: steps(balances[grant.balanceId]?.remaining ?? 0),
  })),
});

/** Applies motions, as insert-takings.ts does in SQL. */
function applyMotions(books: PureBooks, motions: readonly PlannedMotion[]): void {
  changeGrants(books, (grant) => {
    const motion = motions.find(({ balanceId }) => balanceId === grant.balanceId);
    const balance = books.balances[grant.balanceId];
    if (motion === undefined || balance === undefined) return grant;
    const over = grant.takenSteps - motion.dueSteps;
    const delta = motion.isWhole ? -balance.remaining : Math.max(over, -balance.remaining);
    balance.remaining += delta;
    balance.isRevoked = motion.isWhole;
    const takenSteps = grant.takenSteps - delta;
    balance.owed = motion.isWhole ? 0 : Math.max(0, Math.min(motion.dueSteps - takenSteps, balance.held));
    return { ...grant, dueSteps: steps(motion.dueSteps), takenSteps: steps(takenSteps) };
  });
}

type PaymentStatus = Pick<StoredPayment, "status" | "reason">;

/** Stores payments and debts, as store-payment.ts and stored-debts.ts do in SQL. */
function store(
  books: PureBooks,
  read: EventBooks,
  plan: Pick<AccountPlan, "motions" | "lines" | "debts" | "payers">,
  standing: PaymentStatus,
  all: boolean,
  grants: readonly StoredGrant[] = [],
): void {
  const isTouched = (state: PaymentState) =>
    plan.motions.some(({ payment }) => payment === state) || plan.lines.some(({ payment }) => payment === state);
  for (const state of read.payments) {
    const isOwn = state === read.eventPayment;
    if (!(isTouched(state) || (all && (isOwn || state.isChanged)))) continue;
    storeOne(books, state, plan, isOwn ? standing : standingOfKnown(state), isOwn ? grants : []);
  }
  numberPayments(books);
  for (const { id, customer, currency, amount, sinceMs } of plan.debts) {
    const before = books.debts.findIndex((debt) => debt.id === id);
    const payers = books.debts[before]?.payers ?? [];
    if (amount < 0) throw new Error("A debt fell below 0.");
    const debt = { id, accountId: ACCOUNT, customer, currency, amount, sinceMs, payers };
    books.debts.splice(before === -1 ? books.debts.length : before, 1, debt);
  }
  for (const { debt: id, line, amount, atMs } of plan.payers) {
    const index = books.debts.findIndex((debt) => debt.id === id);
    const debt = books.debts[index];
    if (debt === undefined) throw new Error("The debt that a line pays is unknown.");
    const payers = [...debt.payers.filter((payer) => payer.line !== line), { line, amount, atMs }];
    books.debts.splice(index, 1, { ...debt, payers });
  }
}

function storeOne(
  books: PureBooks,
  state: PaymentState,
  plan: Pick<AccountPlan, "lines">,
  { status, reason }: PaymentStatus,
  granted: readonly StoredGrant[],
): void {
  const { known, names, facts } = state;
  const ids = known.map(({ id }) => id);
  const others = books.payments.filter(({ id }) => !ids.includes(id));
  const createdAtMs = known[0]?.createdAtMs ?? 1 + Math.max(0, ...others.map((payment) => payment.createdAtMs));
  const common = { customer: null, settledBy: null, tellAtMs: null, version: 1, writtenBy: "", customerUser: null };
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
    lines: linesAfter(state, plan),
  };
  const payment = { id: ids[0] ?? `of ${names[0]}`, status, reason, ...common, createdAtMs, ...rows };
  books.payments.splice(0, books.payments.length, ...others, payment);
}

/** Numbers payments by their order, so that equal books have equal text. */
function numberPayments({ payments }: PureBooks): void {
  const inOrder = payments.toSorted((a, b) => a.createdAtMs - b.createdAtMs);
  const numbered = inOrder.map((payment, index) => ({ ...payment, id: `pay_${index}`, createdAtMs: index }));
  payments.splice(0, payments.length, ...numbered);
}
