import { listInput } from "../api/credits/list-balances.ts";
import { findBalances, SEARCHED_BALANCES_MAX } from "../books/credits/find-balances.ts";
import { AS_OF_ENTRIES_MAX, listBalancesAsOf } from "../books/credits/list-as-of.ts";
import type { ShownBalance } from "../books/credits/read-balance.ts";
import type { BalanceStatus } from "../books/ledger/balance.ts";
import { balanceColumn, fieldColumn, remainingColumn, tagColumn, textColumn, timeColumn } from "./columns.tsx";
import { Tag } from "./components.tsx";
import { createDashboardRoutes, type Form, parseForm, timeField } from "./form.ts";
import { amountText } from "./format.tsx";
import { ReferenceLink, UserLink } from "./links.tsx";
import { packChoices } from "./packs.tsx";
import { listRoutes, type Resource } from "./resource.tsx";

const BALANCE_STATUSES: readonly BalanceStatus[] = ["active", "depleted", "expired", "revoked"];

const ofUser = (_: unknown, { userId = "" }: Form) => (
  <>
    User <UserLink id={userId} />
  </>
);

const balancesList: Resource<ShownBalance> = {
  path: "users/balances",
  title: ({ userId = "" }) => `Balances of ${userId}`,
  section: "users",
  label: "Balances",
  about: ofUser,
  columns: [
    balanceColumn,
    textColumn("packName", "Pack"),
    remainingColumn("Remaining"),
    tagColumn("status", "Status"),
    fieldColumn(
      "externalRef",
      "Reference",
      ({ externalRef }) => externalRef !== null && <ReferenceLink reference={externalRef} />,
    ),
    timeColumn("grantedAt", "Granted"),
    timeColumn("expiresAt", "Expires"),
  ],
  filters: async (c) => [
    { name: "userId" },
    { name: "status", label: "Status", options: [["", "all"], ...BALANCE_STATUSES] },
    { name: "packId", label: "Pack", options: await packChoices(c) },
    { name: "reference", label: "Reference", placeholder: "Or its beginning" },
  ],
  read: (c, form) => {
    const { userId = "", packId, reference } = form;
    const filters = { status: BALANCE_STATUSES.find((each) => each === form.status), packId, reference };
    return async (page) => {
      const { balances, nextCursor } = await findBalances(c.var.ctx, userId, filters, page);
      return { rows: balances, nextCursor };
    };
  },
  empty: "No balances here.",
  searched: [SEARCHED_BALANCES_MAX, "balances"],
};

type PastBalance = Awaited<ReturnType<typeof listBalancesAsOf>>["balances"][number];
const UNKNOWN_PAST = { packName: null, remaining: null, initial: null, unit: null, status: null, expiresAt: null };

/** The balances that a user had at a moment. */
const asOfList: Resource<
  { balanceId: string; isKnown: boolean } & (NonNullable<PastBalance["past"]> | typeof UNKNOWN_PAST)
> = {
  path: "users/as-of",
  title: ({ userId = "" }) => `As of a moment: ${userId}`,
  section: "users",
  label: "Balances then",
  about: (c, form) => <>{ofUser(c, form)}. Computed from the ledger. The newest balances first.</>,
  columns: [
    balanceColumn,
    textColumn("packName", "Pack"),
    remainingColumn("Remaining then"),
    fieldColumn("status", "Status", ({ status }) => status !== null && <Tag kind={status}>{status}</Tag>),
    timeColumn("expiresAt", "Expires"),
  ],
  filters: [{ name: "userId" }, { name: "asOf", label: "At (UTC)", type: "datetime-local" }],
  read: (c, form) => {
    const { userId = "" } = form;
    const { asOf } = parseForm(listInput, { userId, asOf: timeField(form, "asOf") });
    return async (page) => {
      if (asOf === undefined) return { rows: [], nextCursor: null };
      const { balances, nextCursor } = await listBalancesAsOf(c.var.ctx, userId, asOf, page);
      const rows = balances.map(({ balanceId, past }) => ({
        balanceId,
        isKnown: past !== null,
        ...(past ?? UNKNOWN_PAST),
      }));
      return { rows, nextCursor };
    };
  },
  words: ["Newest", "Older balances"],
  empty: ({ asOf }) => (asOf === undefined ? "Choose a moment." : "The user had no balances then."),
  foot: (_, { list }) =>
    list.rows.every(({ isKnown }) => isKnown) ? null : (
      <p class="soft">
        A page reads the last {amountText(AS_OF_ENTRIES_MAX)} ledger entries. If more were written since, the amount is
        not shown here. <code>GET /api/v1/credits?asOf=</code> returns it.
      </p>
    ),
};

export const balancesRoutes = createDashboardRoutes()
  .route("/", listRoutes(balancesList))
  .route("/", listRoutes(asOfList));
