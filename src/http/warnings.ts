import type { Runtime } from "../runtime.ts";

/**
 * Warnings about input that is accepted but looks like a mistake (W16). Each is one ASCII sentence without any value of the
 * caller.
 */
const WARNINGS = {
  quantity_disregarded: "The quantity is disregarded: the pack has items, and each is granted as it is.",
  granted_before: "This externalRef was granted before with another quantity, and nothing more was granted.",
  count_implied:
    "A balance in count pays 1 for an event that names no count: send count with each event, 0 where such a balance must not pay.",
  audience_missing:
    "The setting names no audience, so a token that its issuer made for another application passes too.",
  percent_below_one: "The percentage is below 1: write 20 for 20 percent.",
  device_made_user:
    "A secret key sent an event under the id of a device, which is a user from now on that no page can link to another.",
} as const;
export type Warning = keyof typeof WARNINGS;

const WARNINGS_MAX = 3;
export const WARNING_HEADER = "purser-warning";

/** Adds a warning to the response. Does nothing where there is no response, as in the cron. */
export const warn = ({ warn: tell }: Pick<Runtime, "warn">, warning: Warning): void => tell?.(WARNINGS[warning]);

/** Returns the text of the warning header, with each sentence once. */
export const warningText = (sentences: ReadonlySet<string>): string => [...sentences].slice(0, WARNINGS_MAX).join(" ");
