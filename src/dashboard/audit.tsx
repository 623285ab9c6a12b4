import type { Child } from "hono/jsx";
import { nameActors } from "../catalog/admin-keys.ts";
import { ACTIONS } from "../catalog/audit.ts";
import type { AuditEntry } from "../catalog/audit-page.ts";
import { SEARCHED_AUDIT_ENTRIES_MAX, type ShownAuditEntry, searchAudit } from "../catalog/search-audit.ts";
import { AppLink } from "./app-link.tsx";
import { customColumn, fieldColumn, realTimeColumn, textColumn } from "./columns.tsx";
import { textField, useRequest } from "./form.ts";
import { amountText, queryString } from "./format.tsx";
import { userPath } from "./links.tsx";
import { RowsTable, rare } from "./list.tsx";
import type { ListColumn } from "./read-list.ts";
import { listRoutes, type Resource } from "./resource.tsx";
import { UnitAmount } from "./unit-amount.tsx";

/** The page that shows the changed setting, for actions on the application itself. */
const SETTING_PAGES: Readonly<Partial<Record<AuditEntry["action"], string>>> = {
  "app.created": "overview",
  "end_user_auth.set": "keys",
  "limits.set": "limits",
  "expiry_notices.set": "alerts",
  "clock.set": "clock",
  "clock.removed": "clock",
  "stripe.set": "payments",
  "payment.carry_set": "payments",
  "webhook.deleted": "webhooks",
};

/** Returns the page that shows the target of an action. Null for a target without a page. */
function findAuditPage(target: string, action?: AuditEntry["action"]): string | null {
  const page = action === undefined ? undefined : SETTING_PAGES[action];
  if (page !== undefined) return page;
  if (action === "payment.settled") return `payments/${encodeURIComponent(target)}`;
  if (target.startsWith("crb_")) return `users/balance${queryString({ balanceId: target })}`;
  if (target.startsWith("cpk_")) return `packs/${target}`;
  if (target.startsWith("era_")) return `people/erasures/${target}`;
  if (target.startsWith("alr_")) return "alerts";
  if (target.startsWith("whk_")) return `webhooks/${target}`;
  return target.startsWith("key_") ? "keys" : null;
}

interface TargetProps {
  readonly target: string;
  readonly action?: AuditEntry["action"];
  readonly details: AuditEntry["details"];
}

/** Links to a page of the application in the mode of an action: the audit has actions of both modes. */
const LinkInMode = ({ to, mode, children }: { to: string; mode: unknown; children: Child }) => {
  const { environment } = useRequest().var.ctx;
  const at = mode === "live" || mode === "test" ? mode : environment.mode;
  return <AppLink to={`/admin/apps/${encodeURIComponent(environment.appId)}/${at}/${to}`}>{children}</AppLink>;
};

/** Links to the target of an action. */
const Target = ({ target, action, details: { mode } }: TargetProps) => {
  const place = findAuditPage(target, action);
  if (place === null) return <code>{target}</code>;
  return (
    <LinkInMode to={place} mode={mode}>
      <code>{target}</code>
    </LinkInMode>
  );
};

/** Returns the name of an action for people: `Pack archived` for `pack.archived`. */
function actionText(action: AuditEntry["action"]): string {
  const words = action.replaceAll(/[._]/g, " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Shows the name of an action, with the API's name on hover. */
const ActionName = ({ action }: Pick<AuditEntry, "action">) => <span title={action}>{actionText(action)}</span>;

const detailAsText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** Whether a detail is a ledger entry, which is shown as its amount with a link to its balance. */
const isEntry = (value: unknown): value is { balanceId: string; unit: string; amount: number; seq: number } =>
  typeof value === "object" && value !== null && "balanceId" in value;

const Word = ({ value, details }: Pick<TargetProps, "details"> & { value: unknown }) => {
  if (typeof value === "number") return <>{amountText(value)}</>;
  if (typeof value === "string" && /^(?:crb|cpk)_/.test(value)) return <Target target={value} details={details} />;
  if (!isEntry(value)) return <>{detailAsText(value)}</>;
  const { balanceId, unit, amount: moved, seq } = value;
  return (
    <>
      <UnitAmount of={moved} unit={unit} /> of <Target target={balanceId} details={details} /> (entry {seq})
    </>
  );
};

/** Shows a detail in words: a list with commas, and ids of balances and packs as links. */
const Detail = ({ value, details }: Pick<TargetProps, "details"> & { value: unknown }) => {
  if (!Array.isArray(value)) return <Word value={value} details={details} />;
  if (value.length === 0) return <>none</>;
  return (
    <>
      {value.map((each, index) => (
        <>
          {index === 0 ? "" : ", "}
          <Word value={each} details={details} />
        </>
      ))}
    </>
  );
};

/** Shows the details of an action: the changes and the values before. */
const Details = ({ details }: Pick<TargetProps, "details">) => {
  const { before, ...others } = details;
  const entries = Object.entries(others);
  return (
    <>
      {entries.map(([name, value]) => (
        <div>
          <span class="soft">{name}</span> <Detail value={value} details={details} />
        </div>
      ))}
      {before !== undefined && (
        <details>
          <summary>Before</summary>
          <code>{detailAsText(before)}</code>
        </details>
      )}
    </>
  );
};

/** Returns the actor that a text names: a name, or an administration key by its id, also as the list shows it. */
function parseActor(text: string | undefined): string | undefined {
  const [, key] = /^(?:.* \()?(?:ak:)?(adk_[^)]+)\)?$/.exec(text ?? "") ?? [];
  return key === undefined ? text : `ak:${key}`;
}

/** An action, its time and its actor. */
const ACT_COLUMNS: readonly ListColumn<AuditEntry>[] = [
  realTimeColumn("at", "When"),
  textColumn("by", "By"),
  fieldColumn("action", "Action", ({ action }) => <ActionName action={action} />),
];
const DETAILS_COLUMN: ListColumn<AuditEntry> = customColumn(
  "details",
  "Details",
  ({ details }) => <Details details={details} />,
  ({ details }) => JSON.stringify(details),
);

const AUDIT_FILTERS = ["by", "action", "target", "userId"] as const;

const auditList: Resource<ShownAuditEntry> = {
  path: "audit",
  title: "Audit",
  section: "audit",
  label: "Actions",
  about:
    "Every administrative action on this application, in both modes, by API or dashboard. Entries cannot be changed.",
  columns: [
    ...ACT_COLUMNS,
    fieldColumn(
      "target",
      "About",
      ({ target, action, details }) => target !== null && <Target target={target} action={action} details={details} />,
    ),
    rare(
      fieldColumn(
        "userId",
        "User",
        ({ userId, details: { mode } }) =>
          userId !== null && (
            <LinkInMode to={userPath(userId)} mode={mode}>
              {userId}
            </LinkInMode>
          ),
      ),
    ),
    rare(textColumn("reason", "Reason")),
    DETAILS_COLUMN,
  ],
  filters: (c) => [
    { name: "by", label: "By", placeholder: "A name, or the id of a key" },
    {
      name: "action",
      label: "Action",
      options: [["", "all"], ...ACTIONS.map((action) => [action, actionText(action)] as const)],
    },
    { name: "target", label: "About (an id)", placeholder: "cpk_…, crb_…, key_…" },
    { name: "userId", label: `User (${c.var.ctx.environment.mode})` },
  ],
  read: (c, form) => {
    const { appId, mode } = c.var;
    const [by, action, target, userId] = AUDIT_FILTERS.map((name) => textField(form, name));
    const user = userId === undefined ? undefined : { mode, userId };
    const name = nameActors(c.var.root);
    return async (page) => {
      const { entries, nextCursor } = await searchAudit(
        c.var.root,
        appId,
        { by: parseActor(by), action, target: target?.trim(), user },
        page,
      );
      return { rows: await name(entries), nextCursor };
    };
  },
  empty: "No actions here.",
  searched: [SEARCHED_AUDIT_ENTRIES_MAX, "actions"],
};

export const auditRoutes = listRoutes(auditList);

interface AuditTableProps {
  readonly label: string;
  readonly entries: readonly AuditEntry[];
  readonly empty: string;
}

/** Shows the administrative actions on one thing as a table. */
export const AuditTable = ({ label, entries, empty }: AuditTableProps) => (
  <RowsTable label={label} csv="audit" columns={[...ACT_COLUMNS, DETAILS_COLUMN]} rows={entries} empty={empty} />
);
