import { env } from "cloudflare:workers";
import { changeFeature } from "../../src/db/features.ts";
import { randomId } from "../../src/lib/ids.ts";
import type { Environment } from "../../src/runtime.ts";

/** An endpoint straight into the tables, which is told all that `types` name. */
export async function makeEndpoint(
  environment: Environment,
  types: readonly string[] | null = ["**"],
  createdAtMs = 0,
): Promise<string> {
  const id = randomId("whk_");
  const { text, params } = changeFeature(environment.id, "webhooks", [{ id, types }]);
  await env.DB.batch([
    env.DB.prepare(
      "INSERT INTO webhook_endpoints (id, environment_id, url, types, secret, created_at_ms) VALUES (?, ?, ?, ?, ?, CAST(? AS INTEGER))",
    ).bind(id, environment.id, "https://receiver.example", types && JSON.stringify(types), "sealed", createdAtMs),
    env.DB.prepare(text).bind(...params),
  ]);
  return id;
}

export interface StoredMessage {
  readonly id: string;
  readonly type: string;
  readonly subject: string | null;
  // A test reads any message. Its assertions say what it should be.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly data: any;
  readonly deliveries: number;
}

/** The messages of an environment, in the order in which they were written, with how many deliveries each has. */
export async function storedMessages({ id }: Environment): Promise<StoredMessage[]> {
  const { results } = await env.DB.prepare(
    `SELECT m.id, m.type, m.subject, m.data, (
       SELECT count(*) FROM webhook_endpoints AS e JOIN webhook_deliveries AS d ON d.endpoint_id = e.id AND d.message_id = m.id
       WHERE e.environment_id = m.environment_id
     ) AS deliveries FROM webhook_messages AS m WHERE m.environment_id = ? ORDER BY m.data ->> 'seq', m.id`,
  )
    .bind(id)
    .all<Omit<StoredMessage, "data"> & { data: string }>();
  return results.map((row) => ({ ...row, data: JSON.parse(row.data) }));
}
