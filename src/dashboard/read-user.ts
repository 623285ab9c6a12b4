import { historyInput } from "../api/credits/list-ledger-entries.ts";
import { readForecasts } from "../books/credits/forecast.ts";
import { listAllBalances } from "../books/credits/list.ts";
import { readUserTotals } from "../books/credits/read-balance.ts";
import { readUserLimits } from "../books/limits/read-user-limits.ts";
import { listRecurring } from "../books/recurring/recurring.ts";
import { listMemberships } from "../books/usage/list-memberships.ts";
import { listReservations } from "../books/usage/reservations-page.ts";
import { readUserModels } from "../books/usage/usage-figures.ts";
import { DAY_MS } from "../lib/time.ts";
import { listUserNotes } from "../people/user-notes.ts";
import { type Form, type PageContext, parseForm } from "./form.ts";
import { readIdentities } from "./identities.ts";
import { readTimeline } from "./read-timeline.ts";
import { readListCard } from "./resource.tsx";
import { timelineBefore } from "./timeline.tsx";
import { ledgerList } from "./user-ledger.tsx";

const SHOWN_BALANCES_MAX = 100;
export const SHOWN_HOLDS_MAX = 50;
export const USAGE_DAYS = 30;

/** Reads all that the page of a user shows. Throws `invalid_request` for a filter that is malformed. */
export async function readUser(c: PageContext, form: Form) {
  const { ctx, root } = c.var;
  const { userId } = parseForm(historyInput, { userId: form.userId });
  const beforeMs = timelineBefore(form);
  const [list, totals, usage, forecasts, { reservations }, { limits }, { recurring }, identities, memberships, notes] =
    await Promise.all([
      listAllBalances(ctx, userId, SHOWN_BALANCES_MAX),
      readUserTotals(ctx, userId),
      readUserModels(ctx, userId, USAGE_DAYS),
      readForecasts(ctx, [userId]),
      listReservations(ctx, { userId, status: "open", limit: SHOWN_HOLDS_MAX }),
      readUserLimits(ctx, userId),
      listRecurring(ctx, { userId }),
      readIdentities(ctx, [userId]),
      listMemberships(ctx, userId, ctx.now() - USAGE_DAYS * DAY_MS),
      listUserNotes(ctx, userId),
    ]);
  const [ledger, timeline] = await Promise.all([
    readListCard(c, ledgerList(list.balances)),
    readTimeline(root, ctx, { userId, beforeMs, recurring }),
  ]);
  if (ledger.rejection !== undefined) throw ledger.rejection;
  return {
    list,
    totals,
    usage,
    forecasts: forecasts.get(userId) ?? [],
    reservations,
    ledger,
    limits,
    recurring,
    memberships,
    notes,
    timeline,
    identity: identities.get(userId) ?? null,
  };
}
