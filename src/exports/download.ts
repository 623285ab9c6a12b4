import { MinuteCounts } from "../auth/minute-counts.ts";
import { inDatabaseOf } from "../auth/require-admin.ts";
import { countActivity } from "../db/activity.ts";
import { atLatestClock, knownClock, timesOf } from "../db/features.ts";
import { underName } from "../db/known-tombstones.ts";
import { databaseIndexOf } from "../db/session.ts";
import { batch, type Statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { sha256, type Utf8 } from "../lib/encoding.ts";
import { rememberPerObject } from "../lib/memory.ts";
import { HOUR_MS } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import { type ExportAuditRow, insertAuditRow } from "./audit.ts";
import { type ExportClaims, exportSecrets, openToken } from "./create-link.ts";
import { documentEnd, documentPieces, fitsInSnapshot } from "./document.ts";
import { guardLink, isEndOfLink, isLinkEnded } from "./end-links.ts";
import { takeSnapshot } from "./snapshot.ts";

export interface Download {
  /** The whole document if it is small. Otherwise a stream; if anything fails, it ends without its closing braces. */
  readonly body: Utf8 | ReadableStream<Utf8>;
  /** Resolves after the last audit row is written, to null or to the error that interrupted the document. */
  readonly ended: Promise<unknown>;
}

/** The same refusal for every invalid token, so that an attacker learns nothing (P6). */
function invalidToken(): PurserError {
  return new PurserError("invalid_or_expired_token", "The link is not valid or has expired. Ask for a new one.");
}

/** Thrown before the first byte if the document would not fit into one download. A repeat does not help. */
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
 * Counts the opening of a link before anything is read. The count is kept in this isolate, because a count in the database would
 * cost a row for each opening. Throws `rate_limited` (P12).
 */
async function countOpening({ isolate, now }: SystemCtx, token: string): Promise<void> {
  const openings = openingsOf(isolate);
  const hash = await sha256(token);
  if (openings.add(hash, now()) <= OPENINGS_AN_HOUR_MAX) return;
  const message = `A link can be opened ${OPENINGS_AN_HOUR_MAX} times an hour. Try again later, or ask for a new one.`;
  throw new PurserError("rate_limited", message, {
    headers: { "Retry-After": String(openings.secondsLeft(hash, now())) },
  });
}

/** The claims of a link's token. The link may have been ended. Throws `export_unavailable`, `invalid_or_expired_token`. */
async function readLinkToken(ctx: SystemCtx, token: string | null): Promise<ExportClaims> {
  const secrets = exportSecrets(ctx);
  const claims = token === null ? null : await openToken(token, secrets, ctx.now());
  if (claims === null) throw invalidToken();
  return claims;
}

/** Whether a link would open (P12). It reads only whether the link was ended. Throws what `downloadExport` throws. */
export async function verifyLink(root: SystemCtx, token: string | null): Promise<void> {
  const claims = await readLinkToken(root, token);
  if (await isLinkEnded(inDatabaseOf(root, claims.appId), claims)) throw invalidToken();
}

/**
 * The person's data at this moment, for the holder of the link (P8 to P13). A document that fits into one read is returned
 * whole; a larger one is streamed page by page. Throws `export_unavailable`, `invalid_or_expired_token`, `rate_limited`.
 */
export async function downloadExport(root: SystemCtx, token: string | null): Promise<Download> {
  const claims = await readLinkToken(root, token);
  await countOpening(root, token ?? "");
  const ctx = inDatabaseOf(root, claims.appId);
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
  const placeNow = () => ({ ...ctx, ...timesOf(knownClock(ctx, environment), ctx), environment });
  const place = placeNow();
  const rowOf = await rowsOf(ctx, token);
  const { name, lifts, snapshot } = await underName(
    place,
    distinctId,
    async (name, guards, lifts) => ({
      name,
      lifts,
      snapshot: await takeSnapshot(place, { appId, mode, distinctId: name }, rowOf("opened", place.now()), [
        ...guards,
        guard,
      ]),
    }),
    "audit",
  );
  const audit: Audit = {
    write: (action) =>
      atLatestClock(() => {
        const place = placeNow();
        return underName(
          place,
          distinctId,
          async (latest, guards, latestLifts) => {
            // After a lift it is unknown whether the person was erased in between.
            const isErased = latest !== name || latestLifts !== lifts;
            const row = rowOf(isErased && action === "completed" ? "failed" : action, place.now());
            await batch(ctx.db, [...guards, insertAuditRow({ appId, mode, distinctId: latest }, row)]);
            return !isErased;
          },
          "audit",
        );
      }),
  };
  // The token is signed correctly, so its application was deleted.
  if (snapshot === null) throw invalidToken();
  if (snapshot === "too large") {
    await audit.write("failed");
    throw tooLarge();
  }
  const opened = { id: snapshot.reading.environmentId, database: databaseIndexOf(appId) ?? 0 };
  countActivity(opened, "opened", place.now());
  const pieces = documentPieces(subject, snapshot, place.now());
  if (!fitsInSnapshot(snapshot)) return streamDocument(pieces, audit);
  const whole: Utf8[] = [];
  try {
    for await (const piece of pieces) whole.push(piece);
  } catch (cause) {
    await audit.write("failed").catch(() => {});
    throw cause;
  }
  if (!(await audit.write("completed"))) return openDocument(ctx, claims, token, guard);
  const body = new Uint8Array(await new Blob([...whole, documentEnd()]).arrayBuffer());
  return { body, ended: Promise.resolve(null) };
}

/** Writes the audit rows of one download. */
interface Audit {
  /** Returns whether the person was not erased since the snapshot. If they were, the download fails. */
  readonly write: (action: ExportAuditRow["action"]) => Promise<boolean>;
}

type AuditRowOf = (action: ExportAuditRow["action"], occurredAtMs: number) => ExportAuditRow;

async function rowsOf(ctx: SystemCtx, token: string): Promise<AuditRowOf> {
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

/** Reads the next page while one is sent. */
function readAhead(pieces: AsyncGenerator<Utf8>): () => Promise<IteratorResult<Utf8, void>> {
  const read = () => {
    const next = pieces.next();
    // The failure is handled when this piece is read.
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
  const ending = Promise.withResolvers<unknown>();
  const take = readAhead(pieces);
  let isOver = false;
  const fail = async (cause: unknown): Promise<void> => {
    // The reader may disconnect while a page is read. That page's result must not end the export a second time.
    if (isOver) return;
    isOver = true;
    // The database may be the cause of the failure, so writing the audit row may fail too.
    await audit.write("failed").catch(() => {});
    ending.resolve(cause);
  };
  const body = new ReadableStream<Utf8>(
    {
      pull: async (controller) => {
        try {
          const { value, done } = await take();
          if (isOver) return;
          if (done !== true) return controller.enqueue(value);
        } catch (cause) {
          await fail(cause);
          // The cause is left out, because its message can contain a person's data.
          return controller.error(new Error("The export was interrupted."));
        }
        isOver = true;
        const isWhole = await audit.write("completed").catch((cause) => {
          ending.resolve(cause);
          return false;
        });
        if (!isWhole) {
          ending.resolve(null);
          throw new Error("The export was interrupted.");
        }
        controller.enqueue(documentEnd());
        controller.close();
        ending.resolve(null);
      },
      cancel: () => fail(null),
    },
    { highWaterMark: 0 },
  );
  return { body, ended: ending.promise };
}
