import type { Context } from "hono";
import { Field } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { pathIn } from "./layout.tsx";

/** The search for users, and for what has an id. */
export const FindUser = ({ c, value }: { c: Context<DashboardEnv>; value?: string | undefined }) => (
  <form method="get" action={pathIn(c, "users")} class="card row">
    <Field label="User id, or another id" name="q" value={value} />
    <button type="submit">Search</button>
    <p class="soft wide">
      A user id or a reference, or its beginning. Or the id of a balance, a reservation, an event or a payment.
    </p>
  </form>
);
