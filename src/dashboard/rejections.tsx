import { useContext } from "hono/jsx";
import { type RejectionKind, type RejectionReason, readRejections } from "../db/rejections.ts";
import {
  codeColumn,
  customColumn,
  fieldColumn,
  numberColumn,
  realTimeColumn,
  textColumn,
  userColumn,
} from "./columns.tsx";
import type { Form } from "./form.ts";
import { amountText, quantitiesText } from "./format.tsx";
import { UserLink } from "./links.tsx";
import { rare } from "./list.tsx";
import type { ListColumn } from "./read-list.ts";
import { listRoutes, type Resource } from "./resource.tsx";
import { exactText, QuantityList, UnitsContext } from "./unit-amount.tsx";

const WHY_NOT_GRANTED: Readonly<Record<string, string>> = {
  credit_pack_not_found: "there is no such pack, or it is archived",
  invalid_quantity: "the quantity is missing, not positive, or too large",
  test_quota_exceeded: "test mode has the maximum number of balances",
  person_erased: "this person was erased",
};

const WHY_NOT_PAID: Readonly<Record<string, string>> = {
  exhausted: "have too little left",
  wrong_unit: "are in another unit",
  no_match: "are for other events or models",
};

type AmountOfUnit = (unit: string, amount: number) => string;
/** In a file, amounts have the API's units. */
const inApiUnit: AmountOfUnit = (unit, amount) => `${amountText(amount)} ${unit}`;

/** Returns why a grant or a usage was rejected, in words for people. */
function whyRejected({ limit, skipped, code, param }: RejectionReason, ofUnit: AmountOfUnit): string {
  if (limit !== undefined) {
    const { name, unit, amount, used, asked } = limit;
    return `limit ${name}: ${amountText(used)} of ${ofUnit(unit, amount)} used, ${amountText(asked)} more requested`;
  }
  if (code === undefined) {
    if (skipped === undefined || skipped.length === 0) return "the user had no balance to spend";
    return `balances ${skipped.map((each) => WHY_NOT_PAID[each] ?? each).join(" or ")}`;
  }
  const why = WHY_NOT_GRANTED[code] ?? code;
  return param === undefined ? why : `${why} (${param})`;
}

/** Shows why a grant or a usage was rejected. */
export const WhyRejected = ({ reason }: { reason: RejectionReason }) => {
  const units = useContext(UnitsContext);
  return <>{whyRejected(reason, (unit, amount) => exactText(units, unit, amount))}</>;
};

const REJECTION_LISTS: Readonly<Record<RejectionKind, { title: string; about: string; subject: string }>> = {
  shortage: {
    title: "Insufficient credits",
    about: "Usage that was rejected with 402, because the user's balances did not cover it.",
    subject: "Event",
  },
  usage_limit: {
    title: "Usage limit reached",
    about: "Usage that was rejected with 429, because of a usage limit.",
    subject: "Event",
  },
  failed_grant: {
    title: "Rejected grants",
    about: "Grants that were rejected. The pack is shown as the call named it.",
    subject: "Pack",
  },
};

const isKind = (text: string): text is RejectionKind => Object.hasOwn(REJECTION_LISTS, text);

const shownKind = ({ kind = "" }: Form): RejectionKind => (isKind(kind) ? kind : "shortage");

type ListedRejection = Awaited<ReturnType<typeof readRejections>>[number];

const missingColumn: ListColumn<ListedRejection> = customColumn(
  "missing",
  "Missing, the last time",
  ({ reason }) => <QuantityList of={reason.uncovered ?? {}} />,
  ({ reason }) => quantitiesText(reason.uncovered ?? {}),
);

const rejectionsList: Resource<ListedRejection> = {
  path: "rejections",
  title: (form) => REJECTION_LISTS[shownKind(form)].title,
  section: "overview",
  about: (_, form) =>
    `${REJECTION_LISTS[shownKind(form)].about} The newest 200 of the last 30 days, one row for each user${
      shownKind(form) === "failed_grant" ? " and pack, with the reason of the last one" : ", member, event and model"
    }. Approximate: a server process that ends may not have written some.`,
  columns: (form) => {
    const kind = shownKind(form);
    return [
      fieldColumn("userId", "User", ({ userId }) =>
        userId === null ? <span class="soft">erased</span> : <UserLink id={userId} />,
      ),
      rare(userColumn("memberId", "Member")),
      codeColumn("subject", REJECTION_LISTS[kind].subject),
      ...(kind === "failed_grant" ? [] : [rare(textColumn("model", "Model"))]),
      ...(kind === "shortage" ? [missingColumn] : []),
      customColumn(
        "why",
        "Why",
        ({ reason }) => <WhyRejected reason={reason} />,
        ({ reason }) => whyRejected(reason, inApiUnit),
      ),
      numberColumn("times", "Times"),
      realTimeColumn("lastAt", "Last"),
    ];
  },
  filters: [
    {
      name: "kind",
      label: "Rejected",
      options: Object.entries(REJECTION_LISTS).map(([kind, { title }]) => [kind, title]),
    },
  ],
  read: (c, form) => async () => ({ rows: await readRejections(c.var.ctx, shownKind(form)), nextCursor: null }),
  empty: "Nothing was rejected in the last 30 days.",
};

export const rejectionsRoutes = listRoutes(rejectionsList);
