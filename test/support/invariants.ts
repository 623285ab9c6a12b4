import { env } from "cloudflare:workers";
import { expect } from "vitest";

/**
 * What must hold of every ledger at every moment: each balance is the sum of its entries and never below zero, and each
 * user's entries are numbered without a gap. For `afterAll` of each test file.
 */
export async function expectLedgerInvariants(): Promise<void> {
  const broken = await env.DB.prepare(
    `SELECT b.id FROM credit_balances AS b
     LEFT JOIN (
       SELECT environment_id, user_id, balance_id, sum(delta_steps) AS total, max(seq) AS latest FROM credit_ledger
       GROUP BY environment_id, user_id, balance_id
     ) AS l ON l.environment_id = b.environment_id AND l.user_id = b.user_id AND l.balance_id = b.id
     WHERE coalesce(l.total, 0) <> b.remaining_steps OR b.remaining_steps < 0
       OR b.is_live <> (b.remaining_steps > 0) OR l.latest <> b.last_seq`,
  ).all();
  expect(broken.results, "balances that are not the sum of their ledger").toEqual([]);
  const gaps = await env.DB.prepare(
    "SELECT user_id FROM credit_ledger GROUP BY environment_id, user_id HAVING max(seq) <> count(*) OR min(seq) <> 1",
  ).all();
  expect(gaps.results, "users whose ledger has gaps").toEqual([]);
  const strays = await env.DB.prepare(
    "SELECT balance_id FROM credit_ledger AS l WHERE NOT EXISTS (SELECT 1 FROM credit_balances AS b WHERE b.id = l.balance_id)",
  ).all();
  expect(strays.results, "ledger rows without a balance").toEqual([]);
}
