import { and, eq, gt, gte, or, sql } from "drizzle-orm";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts } from "../../db/schema.ts";
import { all, type RowsOf } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { lastSeqOf } from "../ledger/insert-entries.ts";
import type { VerifyUsersOutput } from "./responses.ts";
import { presentPage, VERIFIED_ENTRIES_MAX, verifyStretches } from "./verify.ts";
import { readVerifyPosition, VERIFY_START, type VerifyPosition, writePosition } from "./verify-position.ts";

/** The most users of a page. */
const VERIFIED_USERS_MAX = 50;

/**
 * Verifies the users of an environment, one after another (C25). A page has at most `VERIFIED_ENTRIES_MAX` entries, and may end
 * within a user's ledger. Throws `invalid_request` for a cursor of another list.
 */
export async function verifyUsers(ctx: TenantCtx, cursor: string | undefined): Promise<VerifyUsersOutput> {
  const scope = ["verify users", ctx.environment.id];
  const text = cursor === undefined ? writePlace(FIRST) : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const place = readUsersPlace(text);
  const found = await all(ctx.db, selectUsersToVerify({ ...selectedBy(ctx, place), limit: VERIFIED_USERS_MAX + 1 }));
  const positionOf = ({ userId }: VerifiedUserRow) =>
    userId === place.userId ? (place.within ?? VERIFY_START) : VERIFY_START;
  const users = takeUsers(found, positionOf);
  const verified = await verifyStretches(
    ctx,
    users.map((user) => ({ user: { accountId: user.accountId }, position: positionOf(user) })),
  );
  const pages = verified.map((page, index) => presentPage(ctx, users[index]?.userId ?? "", page));
  const within = verified.at(-1)?.next ?? null;
  const isMore = within !== null || users.length < found.length;
  const next = { userId: users.at(-1)?.userId ?? "", within };
  return { users: pages, nextCursor: isMore ? encodeTextCursor(writePlace(next), scope) : null };
}

/** The last verified user, and the position within that user's ledger. `within` is null when that user is finished. */
interface VerifyUsersPlace {
  readonly userId: string;
  readonly within: VerifyPosition | null;
}

const FIRST: VerifyUsersPlace = { userId: "", within: null };

function writePlace({ userId, within }: VerifyUsersPlace): string {
  return JSON.stringify([userId, within === null ? null : writePosition(within)]);
}

function readUsersPlace(text: string): VerifyUsersPlace {
  // The cursor's checksum proves that `writePlace` wrote it.
  const [userId, within] = JSON.parse(text) as [string, string | null];
  return { userId, within: within === null ? null : readVerifyPosition(within) };
}

const selectedBy = ({ environment }: TenantCtx, { userId, within }: VerifyUsersPlace) => ({
  environmentId: environment.id,
  fromUserId: userId,
  isFinished: within === null ? 1 : 0,
});

const selectUsersToVerify = query((value: ValueOf<ReturnType<typeof selectedBy> & { limit: number }>) =>
  drizzle
    .select({
      ...fields(accounts, { accountId: "id", userId: "userId" }),
      ...computed({ lastSeq: lastSeqOf(sql`${accounts.id}`) }),
    })
    .from(accounts)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        gte(accounts.userId, value("fromUserId")),
        or(gt(accounts.userId, value("fromUserId")), sql`NOT ${value("isFinished")}`),
      ),
    )
    .orderBy(accounts.userId)
    .limit(value("limit")),
);
type VerifiedUserRow = RowsOf<[ReturnType<typeof selectUsersToVerify>]>[0][number];

/** Returns as many users as fit in a page, at least one. */
function takeUsers(
  found: readonly VerifiedUserRow[],
  positionOf: (user: VerifiedUserRow) => VerifyPosition,
): readonly VerifiedUserRow[] {
  let entries = 0;
  const beyond = found.findIndex((user, index) => {
    entries += user.lastSeq - positionOf(user).afterSeq;
    return index > 0 && (index === VERIFIED_USERS_MAX || entries > VERIFIED_ENTRIES_MAX);
  });
  return beyond === -1 ? found : found.slice(0, beyond);
}
