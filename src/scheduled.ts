import { systemCtx } from "./access/open-root.ts";
import { resealSecrets } from "./access/reseal-secrets.ts";
import { findExpiries } from "./alerts/find-expiries.ts";
import { deleteOldEvents } from "./capture/delete-old.ts";
import { constraintOf } from "./db/constraint.ts";
import { eraseRunning } from "./erasure/erase-running.ts";
import { refusalIn } from "./errors.ts";
import { randomId } from "./lib/ids.ts";
import { tellUnmatched } from "./payments/tell-unmatched.ts";
import type { Runtime } from "./runtime.ts";
import { expireReservations } from "./usage/expire.ts";
import { deleteOldMessages } from "./webhooks/delete-old.ts";
import { deliverDue } from "./webhooks/deliver-due.ts";

const realRuntime: Runtime = { isolate: {}, now: () => Date.now(), newId: randomId };

/** The cron's work, once a minute, in every database. What a part of it writes, the next ones send. */
export async function scheduled(env: Env, runtime: Runtime = realRuntime): Promise<void> {
  const root = systemCtx(env, runtime);
  const { users, failures } = await expireReservations(root);
  report("holds_not_returned", failures, { users });
  report("expiries_not_found", await findExpiries(root));
  report("erasures_not_continued", await eraseRunning(root));
  report("payments_not_told", await tellUnmatched(root));
  report("messages_not_sent", await deliverDue(root));
  report("messages_not_deleted", await deleteOldMessages(root));
  report("events_not_deleted", await deleteOldEvents(root));
  report("secrets_not_sealed_anew", await resealSecrets(root));
}

/** Logs kinds alone, because a message can contain a user's id. */
export function report(code: string, failures: readonly unknown[], more: object = {}): void {
  if (failures.length === 0) return;
  const kinds = failures.map((error) => refusalIn(error)?.code ?? constraintOf(error) ?? "unknown");
  console.error(JSON.stringify({ level: "error", code, ...more, kinds: [...new Set(kinds)] }));
}
