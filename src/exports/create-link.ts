import * as z from "zod";
import { auditOperator } from "../catalog/audit.ts";
import { countActivity } from "../db/count-activity.ts";
import { batchWithGuards, underName } from "../db/known-tombstones.ts";
import { PurserError } from "../errors.ts";
import { lazy } from "../http/lazy.ts";
import { decodeBase64url, encodeBase64url, sha256, signHmac, verifyHmac } from "../lib/encoding.ts";
import { DAY_MS, iso, parseTimestamp } from "../lib/time.ts";
import { words } from "../lib/words.ts";
import type { SystemCtx, TenantCtx } from "../runtime.ts";
import { noteMessages, personExported } from "../webhooks/outbox.ts";
import { type ExportAuditRow, insertAuditRow } from "./export-audit.ts";

export interface ExportPersonInput {
  readonly distinctId: string;
}

export interface ExportPersonOutput {
  readonly downloadUrl: string;
  readonly expiresAt: string;
  readonly format: "json";
}

/** How long a link is valid. A token that is valid for longer is rejected, even if its signature is correct. */
export const TOKEN_LIFE_MS = DAY_MS;

/** The claims of a token (P6). */
const exportClaims = lazy(() =>
  z.strictObject({
    appId: z.string().meta(words("The application's id.", "app_3kDw9pX1sB6vMn0qTzR7Ge")),
    mode: z.enum(["live", "test"]).meta(words("The mode: live or test.", "live")),
    distinctId: z
      .string()
      .min(1)
      .meta(words("The id of the person, as your analytics, credits or consents use it.", "user_42")),
    expiresAt: z.string().meta(words("When it expires.", "2027-01-15T12:00:00.000Z")),
  }),
);
export type ExportClaims = z.infer<typeof exportClaims>;

/** The current secret signs and verifies. The previous one only verifies. */
export interface ExportSecrets {
  readonly current: string;
  readonly previous: string | null;
}

/** Returns `base64url(payload).base64url(HMAC-SHA-256 of the first part's ASCII)`. P6 fixes this form, which is not a JWT. */
export async function signToken(claims: ExportClaims, secret: string): Promise<string> {
  const { appId, mode, distinctId, expiresAt } = claims;
  const payload = encodeBase64url(new TextEncoder().encode(JSON.stringify({ appId, mode, distinctId, expiresAt })));
  return `${payload}.${encodeBase64url(await signHmac(secret, payload))}`;
}

/**
 * Returns the claims of a token that is signed, in canonical form and not expired. Returns null for every other token, so
 * that nobody learns what was wrong. The signature is checked over the received characters, before anything is parsed.
 */
export async function openToken(token: string, secrets: ExportSecrets, nowMs: number): Promise<ExportClaims | null> {
  const [payload, signature, ...rest] = token.split(".");
  if (payload === undefined || signature === undefined || rest.length > 0) return null;
  const mac = decodeBase64url(signature);
  if (mac === null || !(await isSigned(secrets, payload, mac))) return null;
  const claims = readClaims(payload);
  if (claims === null) return null;
  const expiresAtMs = parseTimestamp(claims.expiresAt);
  if (expiresAtMs === null || nowMs > expiresAtMs || expiresAtMs > nowMs + TOKEN_LIFE_MS) return null;
  return claims;
}

async function isSigned(secrets: ExportSecrets, payload: string, mac: Uint8Array): Promise<boolean> {
  if (await verifyHmac(secrets.current, payload, mac)) return true;
  return secrets.previous !== null && (await verifyHmac(secrets.previous, payload, mac));
}

function readClaims(payload: string): ExportClaims | null {
  const bytes = decodeBase64url(payload);
  if (bytes === null) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return exportClaims.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}

/**
 * Creates a signed download link that is valid for 24 hours. Its origin is the configured one, or else the origin of the request. It
 * does not read the person's data, so it returns a link even if nothing is stored (P8). Throws `export_unavailable` if no secret is
 * set or the configured origin is malformed.
 */
export async function createLink(
  ctx: TenantCtx,
  { distinctId, requestOrigin }: ExportPersonInput & { readonly requestOrigin: string },
): Promise<ExportPersonOutput> {
  const secrets = exportSecrets(ctx);
  const { publicOrigin } = ctx.settings;
  if (publicOrigin === null) throw notConfigured();
  const origin = publicOrigin === "request" ? requestOrigin : publicOrigin;
  const { appId, mode } = ctx.environment;
  const nowMs = ctx.now();
  const expiresAtMs = ctx.realNow() + TOKEN_LIFE_MS;
  const expiresAt = iso(expiresAtMs);
  const token = await signToken({ appId, mode, distinctId, expiresAt }, secrets.current);
  const row: ExportAuditRow = {
    id: ctx.newId("exp_"),
    action: "minted",
    tokenHash: await sha256(token),
    keyId: ctx.caller.kind === "secret" ? ctx.caller.keyId : null,
    occurredAtMs: nowMs,
    expiresAtMs,
  };
  const messages = await underName(
    ctx,
    distinctId,
    async (name, guards) => {
      const subject = { appId, mode, distinctId: name };
      const statements = [
        insertAuditRow(subject, row),
        ...personExported(ctx, subject, "minted"),
        ...auditOperator(ctx, name, { action: "export_link.created", target: row.id }),
      ] as const;
      return (await batchWithGuards(ctx.db, guards, statements))[1];
    },
    "audit",
  );
  noteMessages(ctx, messages);
  countActivity(ctx.environment, "minted", nowMs);
  return { downloadUrl: `${origin}/api/v1/export-download?token=${token}`, expiresAt, format: "json" };
}

/** Returns the secrets that sign links. Throws `export_unavailable` if no secret of sufficient length is set (P7). */
export function exportSecrets(ctx: Pick<SystemCtx, "settings">): ExportSecrets {
  const { exportSecrets: secrets } = ctx.settings;
  if (secrets !== null) return secrets;
  throw notConfigured();
}

const notConfigured = () =>
  new PurserError(
    "export_unavailable",
    "Exports are not configured: `ANALYTICS_EXPORT_SECRET` (16 characters or more) is not set, or `PUBLIC_ORIGIN` is not an origin.",
    {
      headers: { "Retry-After": "60" },
      fault: "not_set_up",
    },
  );
