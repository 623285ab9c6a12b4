import { and, between, eq, sql } from "drizzle-orm";
import { roundUp } from "../books/amounts/fraction.ts";
import { asInteger, assignments, drizzle, fields, insertFrom, names, query, type ValueOf } from "../db/query.ts";
import { moneyDays } from "../db/schema.ts";
import { all, type Statement } from "../db/sql.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import type { Fact } from "./facts.ts";
import { deriveMoney } from "./money.ts";

/** The amounts that a payment's row has. */
interface PaymentAmounts {
  readonly currency: string | null;
  readonly captured: number;
  readonly refunded: number;
  readonly withheld: number;
}

/** Returns the amounts of a payment as its row has them: a withheld part of a smallest unit counts as one. */
export function amountsOfPayment(facts: readonly Fact[]): PaymentAmounts {
  const { currency, captured, refunded, withheld } = deriveMoney(facts);
  return { currency, captured: Number(captured), refunded: Number(refunded), withheld: roundUp(withheld) };
}

/** Returns the statements that add a write's change of money to the day of its event. None if it changes no amount. */
export function addMoney({ environmentId, nowMs, known, event, ...after }: AddedMoney): Statement[] {
  const before = known.map(({ facts }) => ({ money: amountsOfPayment(facts), sign: -1 }));
  const rows = differences([...before, { money: after, sign: 1 }]);
  if (rows.length === 0) return [];
  const day = Math.floor((event === null ? nowMs : event.at * 1_000) / DAY_MS);
  return [upsertMoney({ environmentId, day, rows: JSON.stringify(rows) })];
}
interface AddedMoney extends PaymentAmounts {
  readonly environmentId: number;
  readonly nowMs: number;
  /** The stored payments that the write joins. */
  readonly known: readonly { readonly facts: readonly Fact[] }[];
  /** `at` is in seconds. Null if no event of Stripe caused the write. */
  readonly event: { readonly at: number } | null;
}

/** Returns the sums by currency that are not 0. An amount without a currency is of no payment yet. */
function differences(parts: readonly { readonly money: PaymentAmounts; readonly sign: number }[]) {
  const byCurrency = Map.groupBy(parts, ({ money }) => money.currency ?? "");
  return [...byCurrency].flatMap(([currency, ofCurrency]) => {
    const sum = (of: (money: PaymentAmounts) => number) =>
      ofCurrency.reduce((total, { money, sign }) => total + sign * of(money), 0);
    const difference = {
      captured: sum(({ captured }) => captured),
      refunded: sum(({ refunded }) => refunded),
      withheld: sum(({ withheld }) => withheld),
    };
    const isChanged = currency !== "" && Object.values(difference).some((amount) => amount !== 0);
    return isChanged ? [{ currency, ...difference }] : [];
  });
}

const upsertMoney = query((value: ValueOf<{ environmentId: number; day: number; rows: string }>) => {
  const { environmentId, day, currency, captured, refunded, withheld } = moneyDays;
  const insert = insertFrom(
    moneyDays,
    {
      environmentId: asInteger(value("environmentId")),
      day: asInteger(value("day")),
      currency: sql`part.value ->> 'currency'`,
      captured: sql`part.value ->> 'captured'`,
      refunded: sql`part.value ->> 'refunded'`,
      withheld: sql`part.value ->> 'withheld'`,
    },
    sql`FROM json_each(${value("rows")}) AS part WHERE 1`,
  );
  const sums = assignments(moneyDays, {
    captured: sql`${captured} + excluded.${names(captured)}`,
    refunded: sql`${refunded} + excluded.${names(refunded)}`,
    withheld: sql`${withheld} + excluded.${names(withheld)}`,
  });
  return sql`${insert} ON CONFLICT (${names(environmentId, day, currency)}) DO UPDATE SET ${sums}`;
});

const selectMoney = query((value: ValueOf<{ environmentId: number; firstDay: number; lastDay: number }>) =>
  drizzle
    .select(fields(moneyDays, "day", "currency", "captured", "refunded", "withheld"))
    .from(moneyDays)
    .where(
      and(
        eq(moneyDays.environmentId, value("environmentId")),
        between(moneyDays.day, value("firstDay"), value("lastDay")),
      ),
    )
    .orderBy(moneyDays.currency, moneyDays.day),
);

/** The money of one day in one currency, in its smallest unit. */
export interface MoneyDay {
  /** `2026-01-15`. */
  readonly date: string;
  readonly currency: string;
  readonly captured: number;
  readonly refunded: number;
  readonly withheld: number;
}

/** Returns the money that all payments brought and gave back on each of `count` UTC days, exactly. Leaves out days without money. */
export async function readMoneyDays(ctx: TenantCtx, firstMs: number, count: number): Promise<readonly MoneyDay[]> {
  const firstDay = Math.floor(firstMs / DAY_MS);
  const rows = await all(
    ctx.db,
    selectMoney({ environmentId: ctx.environment.id, firstDay, lastDay: firstDay + count - 1 }),
  );
  return rows.map(({ day, ...row }) => ({ ...row, date: iso(day * DAY_MS).slice(0, 10) }));
}
