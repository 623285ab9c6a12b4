import type { Context } from "hono";

/** The answer of what happens once, whose repeats are told by a header. */
export function answerOutcome<Output extends object>(
  c: Context,
  { output, replayed }: { readonly output: Output; readonly replayed: boolean },
): Response {
  if (replayed) c.header("idempotent-replayed", "true");
  return c.json(output);
}
