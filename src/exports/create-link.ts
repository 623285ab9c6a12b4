import { countActivity } from "../db/activity/count.ts";
import { batchBehind, underName } from "../db/tombstones/known.ts";
import { PurserError } from "../errors.ts";
import { sha256 } from "../lib/hash.ts";
import { iso } from "../lib/time.ts";
import type { SystemCtx, TenantCtx } from "../runtime.ts";
import { noteMessages } from "../webhooks/outbox.ts";
import { personExported } from "../webhooks/person-exported.ts";
import { type AuditRow, insertAuditRow } from "./audit.ts";
import type { ExportPersonOutput } from "./responses.ts";
import type { ExportPersonInput } from "./schemas.ts";
import { type ExportSecrets, signToken, tokenLifeMs } from "./token.ts";

/**
 * Creates and signs a download link ("minting" in the interface). It is valid for 24 hours, on the
 * configured origin, else on that of the request. It reads no data, so a link is returned also if nothing is stored (P8). Throws `export_unavailable` if no secret
 * is set, or the configured origin is malformed.
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
  const expiresAt = iso(ctx.realNow() + tokenLifeMs);
  const token = await signToken({ appId, mode, distinctId, expiresAt }, secrets.current);
  const row: AuditRow = {
    id: ctx.newId("exp_"),
    action: "minted",
    tokenHash: await sha256(token),
    keyId: ctx.caller.kind === "secret" ? ctx.caller.keyId : null,
    occurredAtMs: nowMs,
  };
  const told = await underName(
    ctx,
    distinctId,
    async (name, guards) => {
      const subject = { appId, mode, distinctId: name };
      const statements = [insertAuditRow(subject, row), ...personExported(ctx, subject, "minted")] as const;
      return (await batchBehind(ctx.db, guards, statements))[1];
    },
    "read",
  );
  noteMessages(ctx, told);
  countActivity(ctx.environment, "minted", nowMs);
  return { downloadUrl: `${origin}/api/v1/export-download?token=${token}`, expiresAt, format: "json" };
}

/** Throws `export_unavailable` if there is no secret of sufficient length (P7). */
export function exportSecrets(ctx: Pick<SystemCtx, "settings">): ExportSecrets {
  const { exportSecrets: secrets } = ctx.settings;
  if (secrets !== null) return secrets;
  throw notConfigured();
}

const notConfigured = () =>
  new PurserError("export_unavailable", "Exports are not configured on this deployment.", {
    headers: { "Retry-After": "60" },
    fault: "not_set_up",
  });
