import { env } from "cloudflare:workers";

/** Runs a statement without the trigger that rejects it, then creates the trigger again. Returns the number of changed rows. */
export async function withoutTrigger(trigger: string, statement: D1PreparedStatement, d1 = env.DB): Promise<number> {
  const guard = await d1.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").bind(trigger).first<{ sql: string }>();
  if (guard === null) throw new Error(`There is no trigger ${trigger}.`);
  const [, done] = await d1.batch([d1.prepare(`DROP TRIGGER ${trigger}`), statement, d1.prepare(guard.sql)]);
  return done?.meta.changes ?? 0;
}
