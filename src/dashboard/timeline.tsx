import { exactAmount, toMinor, UNITS, type Unit } from "../books/amounts/amount.ts";
import type { AuditEntry } from "../catalog/audit-page.ts";
import { invalid } from "../errors.ts";
import { iso } from "../lib/time.ts";
import type { PaymentOutput } from "../payments/payment-lists.ts";
import { AppLink, pathIn } from "./app-link.tsx";
import { Card, Pager } from "./components.tsx";
import { type Form, useRequest } from "./form.ts";
import { amountText, everyText, moneyText, queryString, Time } from "./format.tsx";
import { EventLink, paymentPath, ReservationLink } from "./links.tsx";
import { StatusTag } from "./payments.tsx";
import { TIMELINE_ACTIONS_MAX, type TimelineItem, type TimelinePage } from "./read-timeline.ts";
import { WhyRejected } from "./rejections.tsx";
import { numberHead, Table } from "./table.tsx";
import { QuantityList, type ShownUnits, unitChangeText } from "./unit-amount.tsx";

type ItemOf<Kind extends TimelineItem["kind"]> = Extract<TimelineItem, { kind: Kind }>;
/** The names of packs by id. */
type PackNames = ReadonlyMap<string, string>;

/** Reads the moment before which a page of the timeline ends. Null for the newest page. */
export function timelineBefore({ before = "" }: Form): number | null {
  if (before === "") return null;
  if (!/^\d{1,15}$/.test(before)) throw invalid("before", "must be a moment of the timeline");
  return Number(before);
}

interface TimelineProps {
  readonly userId: string;
  readonly page: TimelinePage;
  /** The user's balances, which name their packs. */
  readonly balances: readonly { readonly packId: string; readonly packName: string }[];
}

/** Shows what happened to a user, newest first. */
export const Timeline = ({ userId, page, balances }: TimelineProps) => {
  const { items, olderMs, isFirst, hasAllActions } = page;
  const packs = new Map(balances.map(({ packId, packName }) => [packId, packName]));
  const link = (before?: string) => `${pathIn(c, "users")}${queryString({ userId, before })}#timeline`;
  const c = useRequest();
  const { now, realNow } = c.var.ctx;
  return (
    <Card title="Timeline" id="timeline">
      <Table
        label="Timeline"
        csv="timeline"
        head={["When", "What", numberHead("Credits"), "By"]}
        empty={isFirst ? "Nothing happened yet." : "Nothing happened earlier."}
        rows={items.map((item) => [
          <Time at={iso(item.atMs)} isReal={item.kind === "rejection" || item.kind === "action"} />,
          <What item={item} packs={packs} />,
          <span class="num">{describeChanges(c.var.units, item).join(", ")}</span>,
          item.by ?? "",
        ])}
      />
      <p class="soft">
        Rejections are kept for 30 days, and may be incomplete. Equal ones are one row, at the last time.
        {!hasAllActions &&
          ` Only the newest ${TIMELINE_ACTIONS_MAX} actions of operators are shown here. The audit has all.`}
        {Math.abs(now() - realNow()) > 60_000 &&
          " Rejections and actions of operators have the real time, not the test clock's."}
      </p>
      <Pager
        first={isFirst ? null : link()}
        next={olderMs === null ? null : link(String(olderMs))}
        words={["Back to the newest", "Further back"]}
      />
    </Card>
  );
};

/** Returns an item's changes of credits, by unit. */
function describeChanges(units: ShownUnits, item: TimelineItem): string[] {
  const changes = changedMinor(item);
  return UNITS.flatMap((unit) => {
    const changesInUnit = changes.filter((change) => change.unit === unit);
    const minor = changesInUnit.reduce((sum, change) => sum + change.minor, 0n);
    return changesInUnit.length === 0 ? [] : [unitChangeText(units, unit, exactAmount(unit, minor))];
  });
}

interface CreditChange {
  readonly unit: Unit;
  readonly minor: bigint;
}

function changedMinor(item: TimelineItem): readonly CreditChange[] {
  const paid = ({ unit, amount }: { unit: Unit; amount: number }) => ({
    unit,
    minor: -BigInt(toMinor(unit, amount) ?? 0),
  });
  if (item.kind === "entries") return item.rows.map(({ unit, deltaMinor }) => ({ unit, minor: BigInt(deltaMinor) }));
  if (item.kind === "event") return item.event.debits.map(paid);
  return item.kind === "expiry" ? [paid({ unit: item.balance.unit, amount: item.balance.remaining })] : [];
}

interface WhatProps<Item> {
  readonly item: Item;
  readonly packs: PackNames;
}

const What = ({ item, packs }: WhatProps<TimelineItem>) => {
  switch (item.kind) {
    case "entries":
      return <EntriesText item={item} packs={packs} />;
    case "event":
      return <EventText event={item.event} />;
    case "rejection":
      return <RejectionLine rejection={item.rejection} />;
    case "expiry":
      return (
        <>
          Expired, not spent:{" "}
          <AppLink to="users/balance" fields={{ balanceId: item.balance.balanceId }}>
            {item.balance.packName}
          </AppLink>
        </>
      );
    case "payment":
      return (
        <>
          Nothing granted yet: <StatusTag payment={item.payment} />
          <OfPayment payment={item.payment} />
        </>
      );
    case "recurring":
      return (
        <>
          Recurring grant created: {item.grant.packName}, every {everyText(item.grant.every, item.grant.timeZone)}
        </>
      );
    case "action":
      return <>{ACTION_TEXTS[item.auditEntry.action] ?? item.auditEntry.action}</>;
  }
};

const CAUSES: Readonly<Record<ItemOf<"entries">["rows"][0]["cause"], string>> = {
  grant: "Granted",
  recurring: "Granted for a period",
  payment: "Granted",
  usage: "Used",
  hold: "Held",
  hold_returned: "Hold returned",
  adjustment: "Adjusted",
  revoke: "Revoked",
  refund: "Refunded",
  payment_taken: "Taken back",
  payment_restored: "Given back",
  erasure: "Erased",
};

const EntriesText = ({ item: { rows, asked, payment }, packs }: WhatProps<ItemOf<"entries">>) => {
  const [{ cause, reason, packId, balanceId, reservationId, note }] = rows;
  return (
    <>
      {reason === "reservation_expired" ? "Hold expired" : CAUSES[cause]}:{" "}
      <AppLink to="users/balance" fields={{ balanceId }}>
        {packs.get(packId) ?? packId}
      </AppLink>
      {rows.length > 1 && `, ${rows.length} balances`}
      {asked !== undefined && ` for ${usedName(asked)}`}
      {reservationId !== null && (
        <>
          {" "}
          <ReservationLink id={reservationId} />
        </>
      )}
      {payment !== undefined && <OfPayment payment={payment} />}
      {note !== null && <span class="soft"> “{note}”</span>}
    </>
  );
};

interface UsedName {
  readonly event: string;
  readonly model: string | null;
  /** Only of a rejection. */
  readonly memberId?: string | null | undefined;
}

const usedName = ({ event, model, memberId = null }: UsedName): string =>
  [event, model, memberId === null ? null : `member ${memberId}`].filter((part) => part !== null).join(" · ");

const OfPayment = ({ payment }: { payment: PaymentOutput }) => {
  const { paymentKey, captured, refunded, withheld, currency } = payment;
  return (
    <>
      , payment{" "}
      <AppLink to={paymentPath(paymentKey)}>
        <code>{paymentKey}</code>
      </AppLink>{" "}
      of {moneyText(captured, currency)}
      {refunded > 0 && `, of which ${moneyText(refunded, currency)} refunded`}
      {withheld > 0 && `, ${moneyText(withheld, currency)} disputed`}
    </>
  );
};

/** Returns the quantities that are not 0. */
const usedOf = (quantities: object) =>
  Object.fromEntries(Object.entries(quantities).filter(([, value]) => value !== 0));

const EventText = ({ event }: { event: ItemOf<"event">["event"] }) => (
  <>
    {usedName(event)}: <QuantityList of={usedOf(event.quantities)} />
    {event.uncovered !== null && (
      <>
        , not covered: <QuantityList of={event.uncovered} />
      </>
    )}{" "}
    <EventLink id={event.eventId} />
  </>
);

const REJECTED_WITH = {
  shortage: "Rejected (402)",
  usage_limit: "Rejected (429)",
  failed_grant: "Grant rejected",
} as const;

const RejectionLine = ({ rejection }: { rejection: ItemOf<"rejection">["rejection"] }) => {
  const { kind, subject, model, memberId, reason, times } = rejection;
  return (
    <>
      <b>{REJECTED_WITH[kind]}</b>: {usedName({ event: subject, model, memberId })}
      {reason.uncovered !== undefined && (
        <>
          , <QuantityList of={reason.uncovered} /> missing
        </>
      )}{" "}
      (<WhyRejected reason={reason} />){times > 1 && `, ${amountText(times)} times`}
    </>
  );
};

const ACTION_TEXTS: Readonly<Partial<Record<AuditEntry["action"], string>>> = {
  "usage_limit.amount_set": "Own usage limit set",
  "recurring.cancelled": "Recurring grant cancelled",
  "recurring.resumed": "Recurring grant resumed",
  "note.created": "Note added",
  "note.deleted": "Note deleted",
  "export_link.created": "Download link created",
  "export_link.revoked": "Download links ended",
  "person.erased": "Person erased",
  "erasure.lifted": "Erasure lifted",
};
