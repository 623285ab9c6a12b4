import { env } from "cloudflare:workers";
import { expect } from "vitest";

/** How to find a user's rows, their order, and a column that is left out. */
type Rows = readonly [table: string, where: string, order: string, omitted?: string];

const OF_ACCOUNT = "account_id IN (SELECT id FROM own_accounts)";
/** Uses an index, because the database has the rows of all earlier test files. */
const HERE = "environment_id IN (SELECT id FROM environments WHERE app_id = ?2)";
const HERE_OR_OWN = "app_id IN (SELECT ?2 UNION ALL SELECT id FROM own_apps)";
/** The rows of an application that has the user's id as its name. */
const OF_APP = "environment_id IN (SELECT id FROM own_environments)";

const TABLES: readonly Rows[] = [
  ["accounts", `${HERE} AND user_id = ?1`, "id"],
  ["credit_balances", OF_ACCOUNT, "grant_seq"],
  // Any writer may be the first to return a due hold.
  ["credit_ledger", OF_ACCOUNT, "seq", "written_by"],
  ["credit_adjustments", OF_ACCOUNT, "seq"],
  ["credit_refunds", OF_ACCOUNT, "ordinal"],
  ["usage_events", OF_ACCOUNT, "seq"],
  ["recurring_grants", OF_ACCOUNT, "ordinal"],
  ["usage_counters", OF_ACCOUNT, "limit_id"],
  ["large_properties", OF_ACCOUNT, "seq"],
  ["reservations", OF_ACCOUNT, "created_at_ms"],
  ["distinct_ids", `${HERE} AND ?1 IN (distinct_id, claimed_by)`, "distinct_id"],
  ["id_properties", `${HERE} AND distinct_id = ?1`, "is_verified"],
  ["analytics_events", `${HERE} AND distinct_id = ?1`, "seq"],
  ["consent_log", `${HERE} AND distinct_id = ?1`, "seq"],
  ["export_audit", `${HERE} AND distinct_id = ?1`, "seq"],
  ["apps", "name = ?1", "id"],
  ["environments", "id IN (SELECT id FROM own_environments)", "mode"],
  ["api_keys", `environment_id IN (SELECT id FROM environments WHERE ${HERE_OR_OWN}) AND name = ?1`, "id"],
  ["credit_packs", `${HERE_OR_OWN} AND name = ?1`, "id"],
  [
    "admin_audit",
    `${HERE_OR_OWN} AND target IN (
      SELECT id FROM own_apps UNION ALL SELECT id FROM api_keys WHERE ${HERE} AND name = ?1
      UNION ALL SELECT id FROM credit_packs WHERE ${HERE_OR_OWN} AND name = ?1 UNION ALL SELECT 'pi_' || ?1
      UNION ALL SELECT b.id FROM own_accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
    )`,
    "action",
    // All scenes share an application, whose rows have consecutive numbers.
    "seq",
  ],
  ["credit_pack_items", `pack_id IN (SELECT id FROM credit_packs WHERE ${HERE_OR_OWN} AND name = ?1)`, "position"],
  ["price_lists", OF_APP, "version"],
  ["stripe_settings", OF_APP, "setting"],
  ["stripe_customers", OF_APP, "customer"],
  ["stripe_log", OF_APP, "event_id"],
  ["payments", OF_APP, "created_at_ms"],
  ["payment_names", OF_APP, "name"],
  ["payment_facts", OF_APP, "kind, id"],
  ["payment_grants", OF_APP, "(SELECT grant_seq FROM credit_balances WHERE id = balance_id)"],
  ["payment_events", OF_APP, "event_id"],
  ["webhook_messages", OF_APP, "type"],
];

/** D1 allows 32 arguments for a function: the names and values of 16 columns. */
const COLUMNS_OF_OBJECT = 16;

async function listOf([table, where, order, omitted]: Rows): Promise<string> {
  const { results } = await env.DB.prepare("SELECT name FROM pragma_table_info(?)").bind(table).all<{ name: string }>();
  expect(results, table).not.toEqual([]);
  const fields = results.filter(({ name }) => name !== omitted).map(({ name }) => `'${name}', ${name}`);
  const objects: string[] = [];
  for (let at = 0; at < fields.length; at += COLUMNS_OF_OBJECT) {
    objects.push(`json_object(${fields.slice(at, at + COLUMNS_OF_OBJECT).join(", ")})`);
  }
  const row = `'${table}', ${objects.join(", ")}`;
  return `(SELECT json_group_array(json_array(${row}) ORDER BY ${order}) FROM ${table} WHERE ${where})`;
}

/**
 * Returns a function that reads all rows of a user of the application as JSON. It uses one statement, because the tests of faults
 * call it thousands of times.
 */
export async function userRowsReader(appId: string): Promise<(userId: string) => Promise<string>> {
  const lists = await Promise.all(TABLES.map(listOf));
  const text = `WITH own_accounts AS MATERIALIZED (SELECT id FROM accounts WHERE ${HERE} AND user_id = ?1),
    own_apps AS MATERIALIZED (SELECT id FROM apps WHERE name = ?1),
    own_environments AS MATERIALIZED (
      SELECT e.id FROM own_apps AS a CROSS JOIN environments AS e ON e.app_id = a.id
    )
    SELECT json_array(${lists.join(", ")}) AS rows_text`;
  return async (userId) => {
    const rows = await env.DB.prepare(text).bind(userId, appId).first<string>("rows_text");
    if (rows === null) throw new Error("The statement returned no row.");
    return rows;
  };
}
