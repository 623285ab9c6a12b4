import type { NewAuditEntry } from "../../catalog/audit.ts";
import type { Statement } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { sha256, toBase62 } from "../../lib/encoding.ts";
import { canonicalJson, quoted } from "../../lib/json.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { NewCount } from "./counters.ts";
import type { OpenReservation } from "./hold.ts";
import type { NewEntry } from "./insert-entries.ts";
import type { StateChanges } from "./memory.ts";
import type { LedgerMessage } from "./messages.ts";
import type { Settlement } from "./settle.ts";

/** A verb's decision from the rows that it read. To reject, it throws instead. */
export type Decision<Answer> = Replay<Answer> | Change<Answer>;

/** The result of a verb that callers may repeat with the same id. */
export interface Outcome<Output> {
  readonly output: Output;
  /** Whether an equal request was processed before, so that this one changed nothing. */
  readonly replayed: boolean;
}

/** An equal request was processed before, so nothing is written. */
interface Replay<Answer> {
  readonly kind: "replay";
  readonly answer: Answer;
}

/** The changes of a verb. `commit` turns it into statements of one batch. */
export interface Change<Answer> {
  readonly kind: "write";
  /** The statements of its rows, which come before its entries. Some write entries whose amounts only the database knows. */
  readonly statements: readonly Statement[];
  readonly entries?: readonly NewEntry[] | undefined;
  /** The reservation that it settles itself, with the entries of that. */
  readonly settles?: Settlement | undefined;
  /** `rows` are those of `statements`. */
  readonly answer: (rows: readonly unknown[][]) => Answer;
  /**
   * The entry in the audit log, required for an administrator's call. Its details contain the last ledger entry of each of
   * `balanceIds`, which this write made.
   */
  readonly audit?: (Omit<NewAuditEntry, "appId"> & { readonly balanceIds?: readonly string[] }) | undefined;
  /** Its messages, in the order of its entries. A message is sent if an endpoint has chosen its type (H2). */
  readonly messages?: (() => readonly LedgerMessage[]) | undefined;
  /** The amounts that it counts towards usage limits (Q3). The column `counted` of the written rows has them too. */
  readonly counts?: readonly NewCount[] | undefined;
  /** The members that its rows name (ME1). */
  readonly members?: readonly string[] | undefined;
  /** The other facts that this isolate remembers of it, besides its entries. If absent, the account is removed from memory. */
  readonly remembers?: Remembered | undefined;
  /** Whether credits are insufficient. Such a decision is made only after a read, never from memory. */
  readonly needsFreshRead?: boolean | undefined;
}

interface Remembered extends Pick<StateChanges, "newBalances"> {
  /** `rows` are those of `statements`: only the database knows the number of a new reservation. */
  readonly newReservation?: (rows: readonly unknown[][]) => OpenReservation;
}

/** Returns a verb's decision, or the rejection that it throws. */
export function decisionOrRejection<Answer>(decide: () => Decision<Answer>): Decision<Answer> | PurserError {
  try {
    return decide();
  } catch (error) {
    if (error instanceof PurserError) return error;
    throw error;
  }
}

export function replay<Answer>(answer: Answer): Decision<Answer> {
  return { kind: "replay", answer };
}

type More = Omit<Change<unknown>, "kind" | "statements" | "answer">;

/** Returns a change whose `answer` receives the rows of all its statements. */
export function writeAll<Answer>(
  statements: readonly Statement[],
  answer: Change<Answer>["answer"],
  more: More = {},
): Decision<Answer> {
  return { ...more, kind: "write", statements, answer };
}

/** Returns a change whose `answer` receives only the rows of the statement `returning`. */
export function writeReturning<Row, Answer>(
  parts: More & {
    readonly before?: readonly Statement[];
    readonly returning: Statement<Row>;
  },
  answer: (rows: readonly Row[]) => Answer,
): Decision<Answer> {
  const { before = [], returning, ...more } = parts;
  return {
    ...more,
    kind: "write",
    statements: [...before, returning],
    // A batch returns rows in the order of its statements, and this statement's type declares its rows.
    answer: (rows) => answer((rows[before.length] ?? []) as Row[]),
  };
}

/**
 * Identifies a write that must take effect once. Its stored form has the fingerprint of its request, an id of this write, and a mark of
 * each field, without separators, because every event and reservation stores one.
 */
export interface RequestFingerprint {
  readonly hash: string;
  readonly stored: string;
  /** The fields of the body that a conflict may name, in the order of their marks. */
  readonly fields: readonly string[];
}

/** At least 128 bits, in base64url. */
const REQUEST_LENGTH = 22;
/** Only the attempts of one write and repeats of its request are told apart by it. */
const WRITE_ID_LENGTH = 6;
const MARK_LENGTH = 2;
const MARKS = 62 ** MARK_LENGTH;

/** A short hash of the JSON of one field (FNV-1a), so that a conflict can name the fields that differ (U12). Nothing depends on it. */
function fingerprintPart(text: string): string {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return toBase62((hash >>> 0) % MARKS).padStart(MARK_LENGTH, "0");
}

/**
 * Returns the fingerprint of a request. `kind` distinguishes kinds of requests. `input` is the validated input, so that formatting does not
 * matter. Kinds of requests that share ids list their common fields last, in the same order.
 */
export async function fingerprintRequest<Input extends object>(
  ctx: TenantCtx,
  kind: readonly string[],
  input: Input,
  fields: readonly (keyof Input & string)[] = [],
): Promise<RequestFingerprint> {
  const texts = new Map(
    Object.entries(input).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, canonicalJson(value)] as const],
    ),
  );
  // The same as `canonicalJson([...kind, input])`. Properties may be large, and are written once.
  const members = [...texts.keys()].sort().map((name) => `${quoted(name)}:${texts.get(name)}`);
  const request = `[${[...kind.map(quoted), `{${members.join()}}`].join()}]`;
  const fingerprint = (await sha256(request)).slice(0, REQUEST_LENGTH);
  const writeId = ctx.newId("").slice(0, WRITE_ID_LENGTH);
  const marks = fields.map((field) => fingerprintPart(texts.get(field) ?? "")).join("");
  return { hash: fingerprint, fields, stored: fingerprint + writeId + marks };
}

const MARKS_FROM = REQUEST_LENGTH + WRITE_ID_LENGTH;

/** The fields of a commit's body, without the id. An event lists them last, so that a conflict between the two can name them. */
export const committedFields = ["meters", "quantities", "occurredAt", "properties", "onShortage"] as const;

const textOf = (value: unknown): string => (value === undefined ? "" : canonicalJson(value));

/** The fingerprint of an event that charges an expired reservation (U15). No client sent it. */
export function fingerprintCharge(charge: { readonly [Field in (typeof committedFields)[number]]?: unknown }): string {
  return ".".repeat(MARKS_FROM) + committedFields.map((field) => fingerprintPart(textOf(charge[field]))).join("");
}

/** Returns whether a stored fingerprint belongs to this write (whose response was lost), to an equal request, or to another request. */
export function compareFingerprint(stored: string, fingerprint: RequestFingerprint): "own" | "replay" | "other" {
  if (stored === fingerprint.stored) return "own";
  return stored.startsWith(fingerprint.hash) ? "replay" : "other";
}

const fingerprintParts = (stored: string): readonly string[] => stored.slice(MARKS_FROM).match(/../g) ?? [];

/** Returns the common fields in which two requests differ. */
function differingFields(stored: string, fingerprint: RequestFingerprint): readonly string[] {
  const { fields } = fingerprint;
  const common = Math.min(fingerprintParts(stored).length, fields.length);
  if (common === 0) return [];
  const [first, second] = [
    fingerprintParts(stored).slice(-common),
    fingerprintParts(fingerprint.stored).slice(-common),
  ];
  return fields.slice(-common).filter((_, index) => first[index] !== second[index]);
}

/** Returns `idempotency_conflict` (409), with the fields that differ from the first request (U12). */
export function idempotencyConflict(
  message: string,
  param: string,
  stored: string,
  fingerprint: RequestFingerprint,
): PurserError {
  return new PurserError("idempotency_conflict", message, {
    param,
    details: { differs: differingFields(stored, fingerprint) },
  });
}
