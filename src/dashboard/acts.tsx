import type { Context } from "hono";
import type { AuditEntry } from "../audit/responses.ts";
import { Table } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { query, time } from "./format.ts";
import { pathIn } from "./layout.tsx";

/** Where a thing that an act names is shown. Null for one without a page of its own. */
function pageOf(target: string): string | null {
  if (target.startsWith("crb_")) return `users/balance${query({ balanceId: target })}`;
  if (target.startsWith("cpk_")) return `packs/${target}`;
  if (target.startsWith("era_")) return `people/erasures/${target}`;
  if (target.startsWith("alr_")) return "alerts";
  if (target.startsWith("whk_")) return "webhooks";
  return target.startsWith("key_") ? "keys" : null;
}

const Target = ({ c, target }: { c: Context<DashboardEnv>; target: string }) => {
  const place = pageOf(target);
  return place === null ? (
    <code>{target}</code>
  ) : (
    <a href={pathIn(c, place)}>
      <code>{target}</code>
    </a>
  );
};

const shown = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** The details of an act: what it changed, and what that was before. */
const Details = ({ details }: Pick<AuditEntry, "details">) => {
  const { before, ...others } = details;
  const entries = Object.entries(others);
  return (
    <>
      {entries.map(([name, value]) => (
        <div>
          <span class="soft">{name}</span> {shown(value)}
        </div>
      ))}
      {before !== undefined && (
        <details>
          <summary>Before</summary>
          <code>{shown(before)}</code>
        </details>
      )}
    </>
  );
};

interface ActsProps {
  readonly c: Context<DashboardEnv>;
  readonly label: string;
  readonly entries: readonly AuditEntry[];
  readonly empty: string;
  /** Whether the thing that each is about is shown. */
  readonly hasTargets?: boolean;
}

/** Acts of administration as a table. */
export const Acts = ({ c, label, entries, empty, hasTargets = false }: ActsProps) => (
  <Table
    label={label}
    head={["When (UTC)", "By", "Action", ...(hasTargets ? ["About"] : []), "Details"]}
    empty={empty}
    rows={entries.map(({ at, by, action, target, details }) => [
      <span class="num">{time(at)}</span>,
      by,
      action,
      ...(hasTargets ? [<Target c={c} target={target} />] : []),
      <Details details={details} />,
    ])}
  />
);
