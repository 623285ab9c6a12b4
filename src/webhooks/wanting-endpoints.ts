import { type SQL, sql } from "drizzle-orm";
import { meet } from "../books/amounts/match.ts";
import type { ValueOf } from "../db/query.ts";
import { environments } from "../db/schema.ts";
import type { MessageType } from "./message-data.ts";

/** SQL after FROM: the endpoints of an environment that want a type, `w`, for batches that did not read the settings snapshot. */
export const wantingEndpoints = (value: ValueOf<{ environmentId: number }>, type: MessageType): SQL => sql`
  ${environments} CROSS JOIN json_each(${environments.settingsSnapshot} -> 'webhooks') AS w
  ON ${environments.id} = ${value("environmentId")} AND (w.value ->> 'types' IS NULL OR EXISTS (
    SELECT 1 FROM json_each(w.value -> 'types') AS t WHERE ${meet(sql`${type}`, sql`t.value`)}
  ))`;
