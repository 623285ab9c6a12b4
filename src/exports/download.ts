import { MinuteCounts } from "../auth/minute-counts.ts";
import { inDatabaseOf } from "../auth/system-ctx.ts";
import { countActivity } from "../db/count-activity.ts";
import { batchWithGuards, underName } from "../db/known-tombstones.ts";
import { parseDatabaseIndex } from "../db/session.ts";
import { atLatestClock, knownClock, timesOf } from "../db/settings-snapshot.ts";
import type { Statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { rememberPerObject } from "../lib/bounded-memory.ts";
import { sha256, type Utf8 } from "../lib/encoding.ts";
import { HOUR_MS } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { type ExportClaims, exportSecrets, openToken } from "./create-link.ts";
import { documentEnd, documentPieces, fitsInSnapshot } from "./document.ts";
import { guardLink, isEndOfLink, isLinkEnded } from "./end-links.ts";
import { completeExport, type ExportAuditRow, failExport } from "./export-audit.ts";
import { PayerErased } from "./member-events.ts";
import { takeSnapshot } from "./snapshot.ts";

export interface Download {
  /** The whole document if it is small, otherwise a stream. A stream that fails ends without its closing braces. */
  readonly body: Utf8 | ReadableStream<Utf8>;
  /** Resolves after the last audit row is written, to null or to the error that interrupted the document. */
  readonly ended: Promise<unknown>;
}

/** Returns the same rejection for every invalid token, so that an attacker learns nothing (P6). */
function invalidToken(): PurserError {
  return new PurserError("invalid_or_expired_token", "The link is not valid or has expired. Ask for a new one.");
}

/** Returns the rejection of a document that would not fit into one download. It is thrown before the first byte. */
function tooLarge(): PurserError {
  const message = "The data of this person is too large for one download. docs/limits.md has the limit.";
  return new PurserError("export_unavailable", message, {
    details: { reason: "too_large" },
    fault: "export_too_large",
  });
}

const OPENINGS_AN_HOUR_MAX = 60;
const openingsOf = rememberPerObject(() => new MinuteCounts(HOUR_MS));

/**
 * Counts the opening of a link before the person's data is read. This isolate has the count, because in the database each opening would
 * write a row. Returns `rate_limited`, or null when the link may be opened (P12).
 */
async function countOpening({ isolate, now }: SystemCtx, token: string): Promise<PurserError | null> {
  const openings = openingsOf(isolate);
  const hash = await sha256(token);
  if (openings.add(hash, now()) <= OPENINGS_AN_HOUR_MAX) return null;
  const message = `A link can be opened ${OPENINGS_AN_HOUR_MAX} times an hour. Try again later, or ask for a new one.`;
  return new PurserError("rate_limited", message, {
    headers: { "Retry-After": String(openings.secondsLeft(hash, now())) },
  });
}

/** Returns the claims of a link's token. The link may be revoked. Throws `export_unavailable`, `invalid_or_expired_token`. */
async function readLinkToken(ctx: SystemCtx, token: string | null): Promise<ExportClaims> {
  const secrets = exportSecrets(ctx);
  const claims = token === null ? null : await openToken(token, secrets, ctx.now());
  if (claims === null) throw invalidToken();
  return claims;
}

/** Checks whether a link would open (P12), without reading the person's data. Throws the errors of `downloadExport`. */
export async function verifyLink(root: SystemCtx, token: string | null): Promise<void> {
  const claims = await readLinkToken(root, token);
  if (await isLinkEnded(inDatabaseOf(root, claims.appId), claims)) throw invalidToken();
}

/**
 * Returns the person's data at this moment, for the holder of the link (P8 to P13). A document that fits into one read is returned
 * whole. A larger document is streamed page by page. Throws `export_unavailable`, `invalid_or_expired_token`, `rate_limited`.
 */
export async function downloadExport(root: SystemCtx, token: string | null): Promise<Download> {
  const claims = await readLinkToken(root, token);
  const ctx = inDatabaseOf(root, claims.appId);
  const tooOften = await countOpening(root, token ?? "");
  // A revoked link is answered like every invalid one (P14).
  if (tooOften !== null) throw (await isLinkEnded(ctx, claims)) ? invalidToken() : tooOften;
  const guard = await guardLink(root, claims);
  try {
    return await atLatestClock(() => openDocument(ctx, claims, token ?? "", guard));
  } catch (error) {
    throw isEndOfLink(error) ? invalidToken() : error;
  }
}

async function openDocument(ctx: SystemCtx, claims: ExportClaims, token: string, guard: Statement): Promise<Download> {
  const { appId, mode, distinctId } = claims;
  const subject = { appId, mode, distinctId };
  const environment = { appId, mode };
  const environmentCtx = () => ({ ...ctx, ...timesOf(knownClock(ctx, environment), ctx), environment });
  const currentCtx = environmentCtx();
  const auditRow = await readAuditRows(ctx, token);
  const opening = auditRow("opened", currentCtx.now());
  const { name, snapshot } = await underName(
    currentCtx,
    distinctId,
    async (name, guards) => ({
      name,
      snapshot: await takeSnapshot(currentCtx, { appId, mode, distinctId: name }, opening, [...guards, guard]),
    }),
    "audit",
  );
  const audit: Audit = {
    write: (action) =>
      atLatestClock(() => {
        const currentCtx = environmentCtx();
        return underName(
          currentCtx,
          distinctId,
          async (latest, guards) => {
            const subject = { appId, mode, distinctId: latest };
            const row = auditRow(action, currentCtx.now());
            const isSameName = latest === name;
            const statements =
              action === "completed" && isSameName
                ? completeExport(subject, opening.id, row)
                : failExport(subject, opening.id, name, row);
            const [state] = await batchWithGuards(ctx.db, guards, statements);
            return isSameName && state[0]?.isUnderName === true;
          },
          "audit",
        );
      }),
  };
  // The token's signature is valid, so its application was deleted.
  if (snapshot === null) throw invalidToken();
  if (snapshot === "too large") {
    await audit.write("failed");
    throw tooLarge();
  }
  const environmentKey = { id: snapshot.reading.environmentId, database: parseDatabaseIndex(appId) ?? 0 };
  countActivity(environmentKey, "opened", currentCtx.now());
  const pieces = documentPieces(subject, snapshot, currentCtx.now());
  if (!fitsInSnapshot(snapshot)) return streamDocument(pieces, audit);
  const allPieces: Utf8[] = [];
  try {
    for await (const piece of pieces) allPieces.push(piece);
  } catch (cause) {
    await audit.write("failed").catch(() => {});
    throw cause;
  }
  if (!(await audit.write("completed"))) return openDocument(ctx, claims, token, guard);
  const body = new Uint8Array(await new Blob([...allPieces, documentEnd()]).arrayBuffer());
  return { body, ended: Promise.resolve(null) };
}

/** Writes the audit rows of one download. */
interface Audit {
  /** Returns whether the person was not erased since the snapshot. Otherwise no download is complete. */
  readonly write: (action: "completed" | "failed") => Promise<boolean>;
}

type AuditRowOf = (action: ExportAuditRow["action"], occurredAtMs: number) => ExportAuditRow;

async function readAuditRows(ctx: SystemCtx, token: string): Promise<AuditRowOf> {
  const tokenHash = await sha256(token);
  return (action, occurredAtMs) => ({
    id: ctx.newId("exp_"),
    action,
    tokenHash,
    keyId: null,
    occurredAtMs,
    expiresAtMs: null,
  });
}

/** Returns a function that returns the next piece. While the caller sends a piece, the piece after it is read. */
function readAhead(pieces: AsyncGenerator<Utf8>): () => Promise<IteratorResult<Utf8, void>> {
  const read = () => {
    const next = pieces.next();
    // The failure is handled when the caller awaits this piece.
    next.catch(() => {});
    return next;
  };
  let next = read();
  return async () => {
    const result = await next;
    if (result.done !== true) next = read();
    return result;
  };
}

function streamDocument(pieces: AsyncGenerator<Utf8>, audit: Audit): Download {
  const end = Promise.withResolvers<unknown>();
  const nextPiece = readAhead(pieces);
  let isOver = false;
  const fail = async (cause: unknown): Promise<void> => {
    // The client may disconnect while a page is read. The result of that page must not end the export a second time.
    if (isOver) return;
    isOver = true;
    // If the database is the cause of the failure, writing the audit row fails too.
    const isThere = await audit.write("failed").catch(() => true);
    // An erasure of the person (E5) or of a payer (ME6) cuts the export, which is no bug.
    end.resolve(isThere && !(cause instanceof PayerErased) ? cause : null);
  };
  const body = new ReadableStream<Utf8>(
    {
      pull: async (controller) => {
        try {
          const { value, done } = await nextPiece();
          if (isOver) return;
          if (done !== true) return controller.enqueue(value);
        } catch (cause) {
          await fail(cause);
          // The cause is left out, because its message can contain a person's data.
          return controller.error(new Error("The export was interrupted."));
        }
        isOver = true;
        const isWhole = await audit.write("completed").catch((cause) => {
          end.resolve(cause);
          return false;
        });
        if (!isWhole) {
          end.resolve(null);
          throw new Error("The export was interrupted.");
        }
        controller.enqueue(documentEnd());
        controller.close();
        end.resolve(null);
      },
      cancel: () => fail(null),
    },
    { highWaterMark: 0 },
  );
  return { body, ended: end.promise };
}
