import type { Child } from "hono/jsx";
import { COUNTED_SUSPENDED_MAX } from "../books/recurring/recurring.ts";
import { COUNTED_FAULTS_MAX } from "../db/cron-work.ts";
import { COUNTED_UNMATCHED_MAX } from "../payments/payment-lists.ts";
import { SHARE_OF_PUBLIC_KEYS, SHARE_OF_SECRET_KEYS } from "../people/limits/guard-space.ts";
import { COUNTED_DELIVERIES_MAX, type EndpointHealth } from "../webhooks/delivery-page.ts";
import { AppLink } from "./app-link.tsx";
import { useRequest } from "./form.ts";
import { amountText, moneyText, queryString, span, Time } from "./format.tsx";
import { Icon } from "./icons.tsx";
import { paymentPath, rejectionsPath, suspendedPath } from "./links.tsx";
import type { Overview, OverviewProps } from "./read-overview.ts";
import { failureText, isFailing, rateText } from "./webhooks.tsx";

interface OverviewIssue {
  readonly kind: "bad" | "warn";
  readonly title: Child;
  readonly detail: Child;
  readonly to: string;
  readonly action: string;
}

/** The rejections in a day that count as a spike: at least this many, and a multiple of the usual number. */
const SPIKE_MIN = 10;
const SPIKE_TIMES = 3;
const USUAL_DAYS = 7;
/** How long a message may wait before the page reports it, if its endpoint is not failing. */
const WAITING_MS = 15 * 60_000;

/** Shows the problems that an operator should look at first. */
export const Attention = ({ overview }: OverviewProps) => {
  const matters = [
    ...databaseIssues(overview),
    ...cronIssues(overview),
    ...paymentIssues(overview),
    ...endpointIssues(overview),
    ...recurringIssues(overview),
    ...shortageIssues(overview),
  ];
  return (
    <section class="card attention" aria-label="Needs attention" id="attention">
      <ul>
        {matters.length === 0 && (
          <li>
            <Icon name="check" kind="good" />
            <span>Nothing needs your attention.</span>
            <span class="soft">Payments, webhooks, recurring grants, rejections and the database</span>
          </li>
        )}
        {matters.map(({ kind, title, detail, to, action }) => (
          <li>
            <Icon name={kind === "bad" ? "cross" : "alert"} kind={kind} />
            <div>
              <b>{title}</b> <span class="soft">{detail}</span>
            </div>
            <AppLink to={to}>{action}</AppLink>
          </li>
        ))}
      </ul>
    </section>
  );
};

function databaseIssues({ fullness }: Overview): OverviewIssue[] {
  if (fullness < SHARE_OF_PUBLIC_KEYS) return [];
  const isNearEnd = fullness >= SHARE_OF_SECRET_KEYS;
  return [
    {
      kind: isNearEnd ? "bad" : "warn",
      title: `The database is ${Math.floor(fullness * 100)} % full.`,
      detail: `Analytics ${isNearEnd ? "" : "by publishable and relay keys "}are not stored any more. Credits, usage and exports continue.`,
      to: "limits",
      action: "See the limits",
    },
  ];
}

/** Work of the cron that fails again and again: the log has its kind, and each user's own next write tries it too. */
function cronIssues({ faults }: Overview): OverviewIssue[] {
  if (faults === 0) return [];
  const many = faults > COUNTED_FAULTS_MAX ? `More than ${COUNTED_FAULTS_MAX}` : amountText(faults);
  return [
    {
      kind: "bad",
      title: `${many} ${faults === 1 ? "task" : "tasks"} of the cron failed.`,
      detail: `${faults === 1 ? "It is" : "They are"} tried again, at least once in 64 minutes. The Worker's log says which, and why.`,
      to: "verify",
      action: "Verify the books",
    },
  ];
}

function paymentIssues({ unmatched, disputed }: Overview): OverviewIssue[] {
  const { count, oldestAt } = unmatched;
  const many = count > COUNTED_UNMATCHED_MAX ? `More than ${COUNTED_UNMATCHED_MAX}` : amountText(count);
  return [
    ...(count === 0
      ? []
      : [
          {
            kind: "bad" as const,
            title: `${many} ${count === 1 ? "payment has" : "payments have"} granted nothing.`,
            detail: (
              <>
                No user or no pack was found for {count === 1 ? "it" : "them"}; the oldest came <Time at={oldestAt} />.
              </>
            ),
            to: `payments${queryString({ status: "unmatched" })}`,
            action: "Match them",
          },
        ]),
    ...disputed.map(({ paymentKey, withheld, currency }) => ({
      kind: "warn" as const,
      title: `${moneyText(withheld, currency)} is withheld by a dispute.`,
      detail: paymentKey,
      to: paymentPath(paymentKey),
      action: "Open the payment",
    })),
  ];
}

function endpointIssues({ health, lag }: Overview): OverviewIssue[] {
  const nowMs = useRequest().var.ctx.realNow();
  return health.flatMap((endpoint): OverviewIssue[] => {
    const { webhookId, url, isEnabled } = endpoint;
    const waiting = lag.find((each) => each.webhookId === webhookId);
    const oldestAtMs = waiting?.oldestAtMs ?? null;
    const waits = waitingText(waiting?.waiting ?? 0, oldestAtMs, nowMs);
    const at = { to: `webhooks/${webhookId}`, action: "Open the endpoint" };
    if (!isEnabled) {
      return [{ kind: "warn", title: `${endpointName(url)} is off.`, detail: "Nothing is sent to it.", ...at }];
    }
    if (isFailing(endpoint)) {
      return [{ kind: "bad", title: `${endpointName(url)} is failing.`, detail: failingText(endpoint, waits), ...at }];
    }
    const isLate = oldestAtMs !== null && nowMs - oldestAtMs > WAITING_MS;
    return isLate ? [{ kind: "warn", title: `Messages to ${endpointName(url)} are late.`, detail: waits, ...at }] : [];
  });
}

const failingText = (endpoint: EndpointHealth, waits: string): Child => (
  <>
    {rateText(endpoint)} {failureText(endpoint)}{" "}
    {endpoint.lastSuccessAt !== null && (
      <>
        Last success: <Time at={endpoint.lastSuccessAt} isReal />.{" "}
      </>
    )}
    {waits}
  </>
);

function waitingText(waiting: number, oldestAtMs: number | null, nowMs: number): string {
  if (waiting === 0 || oldestAtMs === null) return "No message is waiting.";
  const count =
    waiting > COUNTED_DELIVERIES_MAX ? `More than ${amountText(COUNTED_DELIVERIES_MAX)}` : amountText(waiting);
  return `${count} waiting, the oldest for ${span(nowMs - oldestAtMs)}.`;
}

const NAME_MAX = 60;

/** Returns an endpoint's URL without its scheme and query, which may contain a secret. */
function endpointName(url: string): string {
  if (!URL.canParse(url)) return url.slice(0, NAME_MAX);
  const { host, pathname } = new URL(url);
  const name = `${host}${pathname === "/" ? "" : pathname}`;
  return name.length <= NAME_MAX ? name : `${name.slice(0, NAME_MAX)}…`;
}

function recurringIssues({ suspended }: Overview): OverviewIssue[] {
  if (suspended === 0) return [];
  const many = suspended > COUNTED_SUSPENDED_MAX ? `More than ${COUNTED_SUSPENDED_MAX}` : amountText(suspended);
  return [
    {
      kind: "bad",
      title: `${many} recurring ${suspended === 1 ? "grant is" : "grants are"} suspended.`,
      detail: `${suspended === 1 ? "It grants" : "They grant"} nothing until you resume ${suspended === 1 ? "it" : "them"}.`,
      to: suspendedPath,
      action: "See why",
    },
  ];
}

function shortageIssues({ shortages }: Overview): OverviewIssue[] {
  const days = [...(shortages.before[0]?.days ?? []), ...(shortages.now[0]?.days ?? [])].map(({ value }) => value);
  const today = days.at(-1) ?? 0;
  const usual = days.slice(-1 - USUAL_DAYS, -1).reduce((sum, value) => sum + value, 0) / USUAL_DAYS;
  if (today < SPIKE_MIN || today < SPIKE_TIMES * usual) return [];
  return [
    {
      kind: "warn",
      title: `${amountText(today)} calls were rejected today for insufficient credits (402).`,
      detail: `The ${USUAL_DAYS} days before had ${amountText(Math.round(usual * 10) / 10)} a day.`,
      to: rejectionsPath("shortage"),
      action: "See who was short",
    },
  ];
}
