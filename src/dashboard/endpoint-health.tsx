import type { EndpointHealth } from "../webhooks/read-health.ts";
import type { Attempt } from "../webhooks/responses.ts";
import { Tag } from "./components.tsx";
import { amount } from "./format.ts";

/** Whether its latest attempts fail, or so many of its newest messages do that somebody should look. */
export const isFailing = ({ isEnabled, failingSince, attempted, failed }: EndpointHealth): boolean =>
  isEnabled && attempted > 0 && (failingSince !== null ? failed > 0 : failed * 2 > attempted);

const REASONS: Readonly<Record<string, string>> = {
  timeout: "It did not answer within 10 seconds.",
  unreachable: "It could not be reached.",
  secrets_unavailable: "Its secret could not be read: SETTINGS_SECRET is not set.",
};

/** Why an attempt failed, in words. */
export function reasonOf({ status, error }: Attempt): string {
  if (status === null) return REASONS[error ?? ""] ?? "There was no answer.";
  if (status === 410) return "It answered 410 (gone).";
  if (status >= 300 && status < 400) return `It answered ${status}: redirects are not followed.`;
  return `It answered ${status}.`;
}

export const failureText = ({ lastFailure }: EndpointHealth): string =>
  lastFailure === null ? "" : reasonOf(lastFailure);

export const rateText = ({ attempted, failed }: EndpointHealth): string =>
  attempted === 0
    ? "Nothing was sent to it yet."
    : `${amount(failed)} of its newest ${amount(attempted)} messages failed (${Math.round((100 * failed) / attempted)} %).`;

/** How an endpoint does: off, failing or healthy. */
export const HealthTag = ({ health }: { health: EndpointHealth }) => {
  if (!health.isEnabled) return <Tag kind="warn">off</Tag>;
  if (isFailing(health)) return <Tag kind="bad">failing</Tag>;
  if (health.attempted === 0) return <Tag kind="plain">nothing sent yet</Tag>;
  return health.failed === 0 ? <Tag kind="good">healthy</Tag> : <Tag kind="warn">some fail</Tag>;
};
