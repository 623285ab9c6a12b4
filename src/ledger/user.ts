import { type SQL, sql } from "drizzle-orm";
import type { Prepared, Selected, Values } from "../db/prepared.ts";
import type { Ctx } from "../runtime.ts";

/** A user by id, or as the owner of a reservation or of a balance, whom the very statement finds that asks. */
export type User = string | { readonly ofReservation: string } | { readonly ofBalance: string };

const environmentId = sql.placeholder("environmentId");
const named = sql`${sql.placeholder("user")}`;
const ofReservation = sql`(
  SELECT user_id FROM reservations WHERE environment_id = ${environmentId} AND id = ${sql.placeholder("user")}
)`;
const ofBalance = sql`(
  SELECT user_id FROM credit_balances WHERE environment_id = ${environmentId} AND id = ${sql.placeholder("user")}
)`;

/** A statement about one user, however the user is told. `write` is given the user's id as SQL. */
export function aboutUser<Row>(write: (user: SQL) => Prepared<Row>) {
  const statements = { named: write(named), ofReservation: write(ofReservation), ofBalance: write(ofBalance) };
  return (ctx: Ctx, user: User, values: Values = {}): Selected<Row> => {
    const all = { ...values, environmentId: ctx.environment.id };
    if (typeof user === "string") return statements.named(ctx.db, { ...all, user });
    if ("ofReservation" in user) return statements.ofReservation(ctx.db, { ...all, user: user.ofReservation });
    return statements.ofBalance(ctx.db, { ...all, user: user.ofBalance });
  };
}
