import { sql } from "drizzle-orm";
import { asInteger, computed, drizzle, fields, names, query, read, type ValueOf } from "../db/query.ts";
import { environments, stripeSettings, webhookEndpoints } from "../db/schema.ts";
import { all, batch, type StatementRow } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { openSealed, readSealPrefix, SEALED_TEXT_PATTERN, sealText } from "../lib/seal.ts";
import type { CronCtx, CronPart, Environment, SystemCtx } from "../runtime.ts";
import type { Settings } from "../settings.ts";

type NeedsSettingsSecrets = { readonly settings: Pick<Settings, "settingsSecrets"> };

/** The purpose and the owner of a stored secret. It can be decrypted only for the same purpose and owner. */
export interface SecretContext {
  readonly purpose: "end_user_auth" | "stripe" | "webhook";
  readonly environment: Pick<Environment, "appId" | "mode">;
}

const sealContext = ({ purpose, environment }: SecretContext) =>
  `${purpose}\n${environment.appId}\n${environment.mode}`;

function unavailable(fault: "not_set_up" | "secret_unreadable"): PurserError {
  const message =
    fault === "not_set_up"
      ? "This deployment stores no secrets. Set `SETTINGS_SECRET` (32 characters or more)."
      : "A stored secret cannot be read with this deployment's `SETTINGS_SECRET`. Set the secret again.";
  return new PurserError("secrets_unavailable", message, { headers: { "Retry-After": "60" }, fault });
}

/** Returns a secret as it is stored. Throws `secrets_unavailable` without `SETTINGS_SECRET`. */
export async function sealSecret(
  { settings }: NeedsSettingsSecrets,
  context: SecretContext,
  secret: string,
): Promise<string> {
  if (settings.settingsSecrets === null) throw unavailable("not_set_up");
  return sealText(settings.settingsSecrets.current, sealContext(context), secret);
}

/** Returns a stored secret in plain text. Throws `secrets_unavailable` without the setting that sealed it. */
export async function openSecret(
  { settings }: NeedsSettingsSecrets,
  context: SecretContext,
  sealed: string,
): Promise<string> {
  if (settings.settingsSecrets === null) throw unavailable("not_set_up");
  const { current, previous } = settings.settingsSecrets;
  const secret = await openSealed([current, ...(previous === null ? [] : [previous])], sealContext(context), sealed);
  if (secret === null) throw unavailable("secret_unreadable");
  return secret;
}

/** The most texts for each database in a run. Each text is a query. */
const TEXTS_A_RUN_MAX = 100;
const TEXTS_A_STEP = 20;

const { endUserAuth } = environments;
const { setting } = stripeSettings;
const { secret, previousSecret } = webhookEndpoints;
const ofStripe = sql`${stripeSettings} CROSS JOIN ${environments} ON ${environments.id} = ${stripeSettings.environmentId}`;
const ofWebhooks = sql`${webhookEndpoints} CROSS JOIN ${environments} ON ${environments.id} = ${webhookEndpoints.environmentId}`;

/** The columns with sealed texts. */
const SEALED_COLUMNS = {
  end_user_auth: { table: environments, from: sql`${environments}`, id: environments.id, text: endUserAuth },
  stripe: { table: stripeSettings, from: ofStripe, id: stripeSettings.environmentId, text: setting },
  webhook: { table: webhookEndpoints, from: ofWebhooks, id: webhookEndpoints.id, text: secret },
  webhook_previous: { table: webhookEndpoints, from: ofWebhooks, id: webhookEndpoints.id, text: previousSecret },
} as const;
type ColumnName = keyof typeof SEALED_COLUMNS;

const storedFields = (column: ColumnName) => ({
  ...computed({ column: sql<ColumnName>`${column}` }),
  ...fields(environments, "appId", "mode"),
  ...computed({
    id: sql<number | string>`${SEALED_COLUMNS[column].id}`,
    text: sql<string>`${SEALED_COLUMNS[column].text}`,
  }),
});

/** Rows that the previous secret sealed. `mark` is the prefix of its sealed texts. */
const selectOld = query((value: ValueOf<{ mark: string; limit: number; offset: number }>) => {
  const oldOf = (column: ColumnName) => {
    const { from, text } = SEALED_COLUMNS[column];
    return drizzle
      .select(storedFields(column))
      .from(from)
      .where(sql`instr(${text}, ${value("mark")})`)
      .getSQL();
  };
  const parts = [oldOf("end_user_auth"), oldOf("stripe"), oldOf("webhook"), oldOf("webhook_previous")];
  return read(
    storedFields("webhook"),
    () => sql`${sql.join(parts, sql` UNION ALL `)} LIMIT ${asInteger(value("limit"))} OFFSET ${value("offset")}`,
  );
});
type StoredSecret = StatementRow<typeof selectOld>;

/** Writes the new text only if the column has not changed meanwhile. */
const resealUpdate = (column: ColumnName) =>
  query((value: ValueOf<Pick<StoredSecret, "id" | "text"> & { newText: string }>) => {
    const { table, id, text } = SEALED_COLUMNS[column];
    return sql`UPDATE ${table} SET ${names(text)} = ${value("newText")} WHERE ${id} = ${value("id")} AND ${text} = ${value("text")}`;
  });
const resealUpdates = {
  end_user_auth: resealUpdate("end_user_auth"),
  stripe: resealUpdate("stripe"),
  webhook: resealUpdate("webhook"),
  webhook_previous: resealUpdate("webhook_previous"),
};

/**
 * Seals again, with `SETTINGS_SECRET`, the texts that `SETTINGS_SECRET_PREVIOUS` sealed: up to `textsMax` stored texts in a
 * run of the cron. Sends no query without a previous secret. Returns errors: a text that cannot be decrypted does not stop
 * the others.
 */
export async function resealSecrets(root: CronCtx, textsMax = TEXTS_A_RUN_MAX): Promise<readonly unknown[]> {
  const { db, database, allowance, settings } = root;
  const previous = settings.settingsSecrets?.previous ?? null;
  if (previous === null) return [];
  const failures: unknown[] = [];
  const mark = await readSealPrefix(previous);
  const limit = Math.min(textsMax, TEXTS_A_STEP);
  let [count, isLastPage] = [0, false];
  while (!isLastPage && count < textsMax && allowance.has(limit + 1)) {
    // Skips rows that failed to decrypt.
    const storedSecrets = await all(db, selectOld({ mark, limit, offset: failures.length }));
    const results = await Promise.allSettled(storedSecrets.map((stored) => resealStatement(root, stored, mark)));
    const statements = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    if (statements.length > 0) await batch(db, statements);
    count += statements.length;
    isLastPage = storedSecrets.length < limit;
    failures.push(...results.flatMap((result) => (result.status === "rejected" ? [result.reason] : [])));
  }
  const isDone = isLastPage && failures.length === 0;
  if (count > 0) console.info(JSON.stringify({ level: "info", code: "secrets_sealed_anew", database, count, isDone }));
  return failures;
}

export const oldSealsPart: CronPart = {
  code: "secrets_not_sealed_anew",
  weight: 1,
  queriesOfStep: TEXTS_A_STEP + 1,
  work: resealSecrets,
};

/** Returns the statement that replaces the sealed texts in a stored text by new ones. */
async function resealStatement(root: SystemCtx, { column, id, text, ...environment }: StoredSecret, mark: string) {
  const purpose = column === "webhook_previous" ? "webhook" : column;
  const context = { purpose, environment } satisfies SecretContext;
  let newText = text;
  for (const [sealed] of text.matchAll(SEALED_TEXT_PATTERN)) {
    if (sealed.startsWith(mark))
      newText = newText.replace(sealed, await sealSecret(root, context, await openSecret(root, context, sealed)));
  }
  return resealUpdates[column]({ id, text, newText });
}
