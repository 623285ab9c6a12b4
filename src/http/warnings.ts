import type { Runtime } from "../runtime.ts";

/**
 * Warnings about input that is accepted but looks like a mistake (W16). A header carries them, so they are ASCII. They contain
 * no value of the caller.
 */
const WARNINGS = {
  parameter_unknown:
    "An unknown query parameter was ignored, but a known one has the same letters: write its name as the reference does.",
  quantity_disregarded: "The quantity is ignored: the pack has items, and each item is granted with its own amount.",
  granted_before: "This externalRef was granted before with another quantity, and nothing more was granted.",
  count_implied:
    "A balance in count pays 1 for an event without count: send count with each event, and 0 if such a balance must not pay.",
  quantity_rounded: "A quantity or a meter has more decimals than allowed, so it was rounded up.",
  held_units_missing:
    "The commit has none of the units that the reservation holds, so nothing that was held pays for it.",
  audience_missing:
    "The setting names no audience, so a token that its issuer made for another application is accepted too.",
  percent_below_one: "The percentage is below 1: write 20 for 20 percent.",
  device_made_user:
    "A secret key sent an event with the id of a device: the id is a user from now on, and no page can link it to another user.",
  consent_time_replaced:
    "The time of this decision is too far from its arrival, so the time of arrival was stored: send other times with a secret key.",
  device_claims_id:
    "An alias by a secret key joined the other id to the id of a device: send the user's id as distinct_id, and the device's as alias.",
  price_rule_unreachable:
    "A rule can never apply, because an earlier rule of its unit matches whatever it matches: move the narrower rule up.",
  starts_on_another_day:
    "The date of startsAt is another day in the grant's timeZone, where its periods begin: send startsAt with that zone's offset.",
  prices_scheduled:
    "Another version is scheduled and will replace this one at its effectiveAt: delete that version if it must not.",
} as const;
export type Warning = keyof typeof WARNINGS;

const WARNINGS_MAX = 3;
export const WARNING_HEADER = "purser-warning";

/** Adds a warning to the response. Does nothing if there is no response, as in the cron. */
export const warn = (runtime: Pick<Runtime, "warn">, warning: Warning): void => runtime.warn?.(WARNINGS[warning]);

/** Returns the text of the warning header, with each sentence once. */
export const warningText = (sentences: ReadonlySet<string>): string => [...sentences].slice(0, WARNINGS_MAX).join(" ");
