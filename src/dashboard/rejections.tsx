import type { Context } from "hono";
import { type RejectionKind, type RejectionReason, readRejections } from "../db/rejections.ts";
import { numberHead, Table } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./form.ts";
import { amountText, quantitiesText, queryString, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { UserLink } from "./links.tsx";

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

/** Returns why a grant or a usage was rejected, in words for people. */
export function whyRejected({ limit, skipped, code, param }: RejectionReason): string {
  if (limit !== undefined) {
    const { name, unit, amount, used, asked } = limit;
    return `limit ${name}: ${amountText(used)} of ${amountText(amount)} ${unit} used, ${amountText(asked)} more requested`;
  }
  if (code === undefined) {
    if (skipped === undefined || skipped.length === 0) return "the user had no balance to spend";
    return `balances ${skipped.map((each) => WHY_NOT_PAID[each] ?? each).join(" or ")}`;
  }
  const why = WHY_NOT_GRANTED[code] ?? code;
  return param === undefined ? why : `${why} (${param})`;
}

const REJECTION_LISTS: Readonly<Record<RejectionKind, { title: string; about: string; subject: string }>> = {
  shortage: {
    title: "Insufficient credits",
    about: "Usage that was refused with 402, because the user's balances did not cover it.",
    subject: "Event",
  },
  usage_limit: {
    title: "Usage limit reached",
    about: "Usage that was refused with 429, because of a usage limit.",
    subject: "Event",
  },
  failed_grant: {
    title: "Rejected grants",
    about: "Grants that were refused. The pack is shown as the call named it.",
    subject: "Pack",
  },
};

const isKind = (text: string): text is RejectionKind => Object.hasOwn(REJECTION_LISTS, text);

async function rejectionsPage(c: Context<DashboardEnv>) {
  const requestedKind = c.req.query("kind") ?? "";
  const kind = isKind(requestedKind) ? requestedKind : "shortage";
  const { title, about, subject } = REJECTION_LISTS[kind];
  const rejections = await readRejections(c.var.ctx, kind);
  const isUsage = kind !== "failed_grant";
  const isShortage = kind === "shortage";
  return page(
    c,
    { title, section: "overview" },
    <section class="card">
      <p class="soft">
        {about} The newest 200 of the last 30 days, one row for each user and{" "}
        {isUsage ? "event and model" : "pack, with the reason of the last one"}. Approximate: a server process that ends
        may not have written some.
      </p>
      <Table
        label={title}
        head={[
          "User",
          subject,
          ...(isUsage ? ["Model"] : []),
          ...(isShortage ? [numberHead("Missing, the last time")] : []),
          "Why",
          numberHead("Times"),
          "Last",
        ]}
        csv={kind}
        empty="Nothing was refused in the last 30 days."
        rows={rejections.map(({ userId, subject, model, reason, times, lastAt }) => [
          userId === null ? <span class="soft">erased</span> : <UserLink c={c} id={userId} />,
          <code>{subject}</code>,
          ...(isUsage ? [model ?? <span class="soft">none</span>] : []),
          ...(isShortage ? [quantitiesText(reason.uncovered ?? {})] : []),
          whyRejected(reason),
          <span class="num">{amountText(times)}</span>,
          <Time at={lastAt} />,
        ])}
      />
      <p class="row">
        {Object.entries(REJECTION_LISTS).map(
          ([other, list]) =>
            other !== kind && (
              <a class="button quiet" href={`${pathIn(c, "rejections")}${queryString({ kind: other })}`}>
                {list.title}
              </a>
            ),
        )}
        <a class="button quiet" href={pathIn(c, "overview")}>
          Back to the overview
        </a>
      </p>
    </section>,
  );
}

export const rejectionsRoutes = createDashboardRoutes().get("/rejections", rejectionsPage);
