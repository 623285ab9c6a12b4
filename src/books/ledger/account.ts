import { areFeaturesSql } from "../../db/features.ts";
import { fragment, type Statement, statement, type Values } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";

/** A user: by id, as the owner of a reservation or a balance, or by the account's integer. */
export type User =
  | { readonly userId: string }
  | { readonly reservationId: string }
  | { readonly balanceId: string }
  | { readonly accountId: number };

/** The account's integer as SQL, for each way to name its user. Always within the environment of the request. */
const accountOf = {
  userId: fragment`(SELECT id FROM accounts WHERE environment_id = :environmentId AND user_id = :user)`,
  reservationId: fragment`(SELECT account_id FROM reservations WHERE environment_id = :environmentId AND id = :user)`,
  balanceId: fragment`(
    SELECT a.id FROM credit_balances AS b CROSS JOIN accounts AS a ON a.id = b.account_id
    WHERE b.id = :user AND a.environment_id = :environmentId
  )`,
  accountId: fragment`(SELECT id FROM accounts WHERE id = :user AND environment_id = :environmentId)`,
};

/** A statement about one user's account, for each way to name the user. `write` receives the account's integer as SQL. */
export function aboutAccount<Named extends Values, Row>(
  write: (account: string) => (values: Values) => Statement<Row>,
) {
  const statements = {
    userId: write(accountOf.userId),
    reservationId: write(accountOf.reservationId),
    balanceId: write(accountOf.balanceId),
    accountId: write(accountOf.accountId),
  };
  return (ctx: Pick<TenantCtx, "environment">, user: User, values: Named): Statement<Row> => {
    const all = { ...values, environmentId: ctx.environment.id };
    if ("userId" in user) return statements.userId({ ...all, user: user.userId });
    if ("reservationId" in user) return statements.reservationId({ ...all, user: user.reservationId });
    if ("balanceId" in user) return statements.balanceId({ ...all, user: user.balanceId });
    return statements.accountId({ ...all, user: user.accountId });
  };
}

/** The account and the time of a write: values that each of its statements takes. */
export type WriteContext = {
  readonly environmentId: number;
  readonly userId: string;
  /** Null if the user has no account yet. The write then creates one first. */
  readonly accountId: number | null;
  readonly nowMs: number;
};

/** Picks these values from an object that may have others. */
export function writingValues({ environmentId, userId, accountId, nowMs }: WriteContext): WriteContext {
  return { environmentId, userId, accountId, nowMs };
}

/** The account of a write as SQL, with the values of `WriteContext`. */
export const accountSql = fragment`coalesce(
  CAST(:accountId AS INTEGER), (SELECT id FROM accounts WHERE environment_id = :environmentId AND user_id = :userId)
)`;

/**
 * Creates the user's account if there is none. Repeated, or sent by two requests at once, it creates one account. It is a guard
 * as well, because each statement takes time: where the environment's features are no longer `:features`, it aborts the batch with
 * `guard_environment`, by an account of no environment.
 */
export const createAccount = statement<WriteContext & { features: string | null }>`
  INSERT INTO accounts (environment_id, user_id)
  SELECT iif(is_same, CAST(:environmentId AS INTEGER), NULL), :userId FROM (SELECT ${areFeaturesSql} AS is_same)
  WHERE NOT is_same OR NOT EXISTS (SELECT 1 FROM accounts WHERE environment_id = :environmentId AND user_id = :userId)`;
