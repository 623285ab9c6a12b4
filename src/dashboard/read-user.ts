import { ledgerReason } from "../api/credits/credit-shapes.ts";
import { historyInput } from "../api/credits/list-ledger-entries.ts";
import { readForecasts } from "../books/credits/forecast.ts";
import { type HistoryInput, ledgerPage } from "../books/credits/history.ts";
import { type BalanceList, listAllBalances } from "../books/credits/list.ts";
import { readUserTotals } from "../books/credits/read-balance.ts";
import { type LedgerFilters, searchLedger } from "../books/credits/search-ledger.ts";
import { readUserLimits } from "../books/limits/read-user-limits.ts";
import { listRecurring } from "../books/recurring/recurring.ts";
import { describeEvents } from "../books/usage/describe-events.ts";
import { listMemberships } from "../books/usage/list-memberships.ts";
import { listReservations } from "../books/usage/reservations-page.ts";
import { readUserModels } from "../books/usage/usage-figures.ts";
import { invalid } from "../errors.ts";
import { DAY_MS } from "../lib/time.ts";
import { listUserNotes } from "../people/user-notes.ts";
import type { TenantCtx } from "../runtime.ts";
import { type Form, type PageContext, parseForm, textField, timeField } from "./form.ts";
import { readIdentities } from "./identities.ts";
import { type ListPage, readShownList } from "./list.tsx";
import { readTimeline } from "./read-timeline.ts";
import { timelineBefore } from "./timeline.tsx";
import { LEDGER_COLUMNS } from "./user-ledger.tsx";

const SHOWN_BALANCES_MAX = 100;
const CHART_ROWS = 200;
export const SHOWN_HOLDS_MAX = 50;
export const USAGE_DAYS = 30;

/** Returns the start of the day of a date field, in milliseconds. */
function dayField(form: Form, name: string): number | undefined {
  const text = timeField(form, name);
  if (text === undefined) return undefined;
  const atMs = Date.parse(text);
  if (Number.isNaN(atMs)) throw invalid(name, "must be a date such as 2026-01-31");
  return atMs;
}

function readFilters(form: Form): LedgerFilters {
  const reason = textField(form, "reason");
  const toMs = dayField(form, "to");
  return {
    reason: reason === undefined ? undefined : parseForm(ledgerReason, reason),
    fromMs: dayField(form, "from"),
    toMs: toMs === undefined ? undefined : toMs + DAY_MS,
  };
}

export const readHistory = (form: Form) =>
  parseForm(historyInput, {
    userId: form.userId,
    balanceId: textField(form, "balanceId"),
    cursor: textField(form, "cursor"),
  });

/** Returns the reader of the entries that pass the form's filters, newest first. */
export function ledgerReader(ctx: TenantCtx, form: Form, input: HistoryInput) {
  const filters = readFilters(form);
  return (page: ListPage) => searchLedger(ctx, { ...input, ...page }, filters);
}

/** Reads all that the page of a user shows. Throws `invalid_request` for a filter that is malformed. */
export async function readUser(c: PageContext, form: Form) {
  const { ctx, root } = c.var;
  const input = readHistory(form);
  const { userId } = input;
  const beforeMs = timelineBefore(form);
  const [
    list,
    totals,
    usage,
    forecasts,
    { reservations },
    ledger,
    { limits },
    { recurring },
    identities,
    memberships,
    notes,
  ] = await Promise.all([
    listAllBalances(ctx, userId, SHOWN_BALANCES_MAX),
    readUserTotals(ctx, userId),
    readUserModels(ctx, userId, USAGE_DAYS),
    readForecasts(ctx, [userId]),
    listReservations(ctx, { userId, status: "open", limit: SHOWN_HOLDS_MAX }),
    readShownList(form, LEDGER_COLUMNS, ledgerReader(ctx, form, input)),
    readUserLimits(ctx, userId),
    listRecurring(ctx, { userId }),
    readIdentities(ctx, [userId]),
    listMemberships(ctx, userId, ctx.now() - USAGE_DAYS * DAY_MS),
    listUserNotes(ctx, userId),
  ]);
  const eventIds = ledger.rows.flatMap(({ eventId }) => (eventId === null ? [] : [eventId]));
  const [events, chart, timeline] = await Promise.all([
    describeEvents(ctx, eventIds),
    recentEntries(c, userId, form, list),
    readTimeline(root, ctx, { userId, beforeMs, recurring }),
  ]);
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
    events,
    chart,
    timeline,
    identity: identities.get(userId) ?? null,
  };
}

/** Returns the newest entries of the selected balance, or of the first in spending order. */
async function recentEntries(c: PageContext, userId: string, form: Form, list: BalanceList) {
  const balance = list.balances.find((each) => each.balanceId === form.balanceId) ?? list.balances[0];
  if (balance === undefined) return null;
  const { rows } = await ledgerPage(c.var.ctx, { userId, balanceId: balance.balanceId, limit: CHART_ROWS });
  return { balance, rows };
}
