import { env } from "cloudflare:workers";

/** Inserts a user's account into the table, unless there is one. Returns its integer id. */
export async function makeAccount(environmentId: number, userId: string): Promise<number> {
  const of = "environment_id = CAST(?1 AS INTEGER) AND user_id = ?2";
  const [, found] = await env.DB.batch<{ id: number }>([
    env.DB.prepare(
      `INSERT INTO accounts (environment_id, user_id)
       SELECT CAST(?1 AS INTEGER), ?2 WHERE NOT EXISTS (SELECT 1 FROM accounts WHERE ${of})`,
    ).bind(environmentId, userId),
    env.DB.prepare(`SELECT id FROM accounts WHERE ${of}`).bind(environmentId, userId),
  ]);
  const id = found?.results[0]?.id;
  if (id === undefined) throw new Error("an account that was made is there");
  return id;
}
