import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { apps } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { iso } from "../../lib/time.ts";
import type { SystemCtx } from "../../runtime.ts";
import type { ListAppsOutput } from "./responses.ts";

const EVERY = -1;

const selectApps = query((value: ValueOf<{ limit: number }>) =>
  drizzle.select(fields(apps)).from(apps).limit(value("limit")),
);

/**
 * Applications of every database, oldest first: all of them, or no more than `limit` of each. A database that fails takes
 * only its own away, and is named (D2).
 */
export async function listApps(root: SystemCtx, limit: number = EVERY): Promise<ListAppsOutput> {
  const answers = await Promise.allSettled(root.databases.map(({ db }) => all(db, selectApps({ limit }))));
  const unreachable = root.databases.filter((_, index) => answers[index]?.status === "rejected");
  if (unreachable.length === root.databases.length) throw noDatabase(answers[0]);
  const found = root.databases.flatMap(({ name }, index) => {
    const answer = answers[index];
    return answer?.status === "fulfilled" ? answer.value.map((row) => ({ ...row, database: name })) : [];
  });
  return {
    apps: found
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1))
      .map(({ id, name, database, createdAtMs }) => ({ appId: id, name, database, createdAt: iso(createdAtMs) })),
    ...(unreachable.length === 0 ? {} : { unreachable: unreachable.map(({ name }) => name) }),
  };
}

const noDatabase = (answer: PromiseSettledResult<unknown> | undefined): unknown =>
  answer?.status === "rejected" ? answer.reason : new Error("There is no database.");
