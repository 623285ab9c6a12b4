import { apps, environments } from "../db/schema.ts";
import { iso } from "../lib/time.ts";
import type { RootCtx } from "../runtime.ts";
import type { AppOutput } from "./answers.ts";
import type { CreateAppInput } from "./schemas.ts";

/** Makes an application with its two environments, live and test. It has no keys yet. */
export async function createApp(root: RootCtx, input: CreateAppInput): Promise<AppOutput> {
  const id = root.newId("app_");
  const createdAtMs = root.now();
  await root.db.batch([
    root.db.insert(apps).values({ id, name: input.name, createdAtMs }).onConflictDoNothing(),
    root.db
      .insert(environments)
      .values([
        { appId: id, mode: "live" },
        { appId: id, mode: "test" },
      ])
      .onConflictDoNothing(),
  ]);
  return { appId: id, name: input.name, createdAt: iso(createdAtMs) };
}
