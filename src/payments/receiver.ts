import { and, eq, isNotNull, sql } from "drizzle-orm";
import { computed, drizzle, fields, query, type RowOf, type ValueOf } from "../db/query.ts";
import { environments, stripeSettings } from "../db/schema.ts";
import { parseDatabaseIndex } from "../db/session.ts";
import { clockOf, timesOf } from "../db/settings-snapshot.ts";
import { all } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { signHmac } from "../lib/encoding.ts";
import type { Environment, SystemCtx, TenantCtx } from "../runtime.ts";

const receiverFields = {
  ...fields(environments, { environmentId: "id" }),
  ...fields(stripeSettings, "rejectedAtMs"),
  // The condition of the query excludes null.
  ...computed({ stored: sql<string>`${stripeSettings.setting}`, clock: clockOf() }),
};
export type Receiver = RowOf<typeof receiverFields>;

export const selectReceiver = query((value: ValueOf<{ appId: string; mode: string }>) =>
  drizzle
    .select(receiverFields)
    .from(environments)
    .crossJoin(stripeSettings)
    .where(
      and(
        eq(environments.appId, value("appId")),
        eq(environments.mode, value("mode")),
        eq(stripeSettings.environmentId, environments.id),
        isNotNull(stripeSettings.setting),
      ),
    ),
);

export function createTenantCtx(
  root: SystemCtx,
  appId: string,
  mode: string,
  { environmentId, clock }: Receiver,
): TenantCtx {
  const environment: Environment = {
    id: environmentId,
    appId,
    // An environment has no other mode.
    mode: mode === "live" ? "live" : "test",
    database: parseDatabaseIndex(appId) ?? 0,
  };
  return { ...root, ...timesOf(clock, root), environment, caller: { kind: "stripe" } };
}

const REJECTED_EVERY_MS = 60_000;
type RejectedRequest = { environmentId: number; nowMs: number; beforeMs: number; reason: string };
const updateRejected = query((value: ValueOf<RejectedRequest>) =>
  drizzle
    .update(stripeSettings)
    .set({
      rejectedAtMs: value("nowMs", stripeSettings.rejectedAtMs),
      rejectedReason: value("reason", stripeSettings.rejectedReason),
    })
    .where(
      and(
        eq(stripeSettings.environmentId, value("environmentId")),
        sql`coalesce(${stripeSettings.rejectedAtMs}, 0) <= ${value("beforeMs")}`,
      ),
    ),
);

/** Records, at most once a minute, a request without a valid signature, because anybody can send one. */
export async function noteRejected(
  ctx: TenantCtx,
  { environmentId, rejectedAtMs }: Receiver,
  reason: string,
): Promise<void> {
  const nowMs = ctx.realNow();
  const beforeMs = nowMs - REJECTED_EVERY_MS;
  if ((rejectedAtMs ?? 0) <= beforeMs) await all(ctx.db, updateRejected({ environmentId, nowMs, beforeMs, reason }));
}

const TOLERANCE_SECONDS = 300;
const SIGNATURE = /^[0-9a-f]{64}$/;

/** The reasons why a request was not accepted as one of Stripe's (S5). */
export const SIGNATURE_FAULTS = ["header_missing", "header_malformed", "wrong_secret", "too_old"] as const;
export type SignatureFault = (typeof SIGNATURE_FAULTS)[number];

export class SignatureRejection extends PurserError {
  readonly reason: SignatureFault;

  constructor(reason: SignatureFault, message: string) {
    super("invalid_signature", `The header \`Stripe-Signature\` ${message}.`, { param: "Stripe-Signature" });
    this.reason = reason;
  }
}

/**
 * Checks `Stripe-Signature` over the bytes received: one `t`, and one `v1` that is the HMAC-SHA-256 of `t.body` under one of
 * the secrets (S1). Throws a `SignatureRejection`, `invalid_signature`.
 */
export async function checkSignature(
  header: string | undefined,
  body: Uint8Array,
  secrets: readonly string[],
  nowMs: number,
): Promise<void> {
  if (header === undefined) throw new SignatureRejection("header_missing", "is missing. Stripe always sends it");
  const fields = header.split(",").map((field) => field.trim().split("=", 2));
  const valuesOf = (name: string) => fields.flatMap(([key, value = ""]) => (key === name ? [value] : []));
  const [time = "", ...otherTimes] = valuesOf("t");
  if (!/^\d{1,12}$/.test(time) || otherTimes.length > 0) throw malformed("one `t`");
  const signatures = valuesOf("v1").filter((text) => SIGNATURE.test(text));
  // Without a well-formed signature nothing is hashed.
  if (signatures.length === 0) throw malformed("a `v1` of 64 hexadecimal digits");
  const prefix = new TextEncoder().encode(`${time}.`);
  const signed = new Uint8Array(prefix.length + body.length);
  signed.set(prefix);
  signed.set(body, prefix.length);
  let isSigned = false;
  for (const secret of secrets) {
    const mac = await signHmac(secret, signed);
    const expected = [...mac].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    for (const signature of signatures) isSigned = isEqual(signature, expected) || isSigned;
  }
  if (!isSigned) {
    const advice = "does not verify. Set the endpoint's signing secret, and send the body unchanged";
    throw new SignatureRejection("wrong_secret", advice);
  }
  if (Math.abs(Math.floor(nowMs / 1_000) - Number(time)) > TOLERANCE_SECONDS) {
    throw new SignatureRejection(
      "too_old",
      `has a time that differs from now by more than ${TOLERANCE_SECONDS} seconds`,
    );
  }
}

/** Compares in constant time. The lengths are public. */
function isEqual(given: string, expected: string): boolean {
  if (given.length !== expected.length) return false;
  let difference = 0;
  for (let index = 0; index < expected.length; index++) {
    difference |= given.charCodeAt(index) ^ expected.charCodeAt(index);
  }
  return difference === 0;
}

const malformed = (what: string): SignatureRejection =>
  new SignatureRejection("header_malformed", `must be a signature of Stripe, with ${what}`);
