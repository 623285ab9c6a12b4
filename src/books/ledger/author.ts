import { eq, type SQL, sql } from "drizzle-orm";
import { computed, drizzle, scalar, type ValueOf } from "../../db/query.ts";
import { environments } from "../../db/schema.ts";
import { assert } from "../../errors.ts";
import type { WriteContext } from "./account.ts";

/** The authors of entries that are no keys (C16), by number. The greater numbers are places in the environment's `authors`. */
const FIXED_AUTHORS = ["cron", "admin", "stripe"] as const;
const BEFORE_FIRST_KEY = FIXED_AUTHORS.length - 1;

type Author = Pick<WriteContext, "environmentId" | "by">;

const readAuthors = (value: ValueOf<Pick<Author, "environmentId">>, shown: SQL<string>) =>
  scalar(
    drizzle
      .select(computed({ shown }))
      .from(environments)
      .where(eq(environments.id, value("environmentId"))),
  );

/** Returns SQL for the number of a write's author. Null if it is no author of the environment. */
export const authorOfWrite = (value: ValueOf<Author>): SQL => {
  const fixed = FIXED_AUTHORS.map((name, number) => sql`WHEN ${name} THEN ${number}`);
  const place = sql<string>`${BEFORE_FIRST_KEY} + nullif(instr(${environments.authors}, ' ' || ${value("by")} || ' '), 0)`;
  return sql`(CASE ${value("by")} ${sql.join(fixed, sql` `)} ELSE ${readAuthors(value, place)} END)`;
};

/** Returns SQL for the environment's authors, for `authorName`. */
export const authorNames = (value: ValueOf<{ environmentId: number }>): SQL<string> =>
  sql<string>`${readAuthors(value, sql<string>`${environments.authors}`)}`;

/** Returns the name of the author with a number. */
export function authorName(number: number, authors: string): string {
  const [name = ""] = authors.slice(number - BEFORE_FIRST_KEY).split(" ", 1);
  assert(number <= BEFORE_FIRST_KEY || name !== "", "every entry's author has a name");
  return FIXED_AUTHORS[number] ?? name;
}
