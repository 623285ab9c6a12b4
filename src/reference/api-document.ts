import packageFile from "../../package.json" with { type: "json" };
import { operations } from "../api/operations.ts";
import { type ErrorCode, errorMeaning, errorStatus } from "../errors.ts";
import { type OpenApiDocument, openApiDocument } from "./describe.ts";
import { describedAtEachPath } from "./describe-operation.ts";

/** Every operation of Purser, as the reference shows it. */
export const describedOperations = operations.flatMap(describedAtEachPath);

/** Returns the table of all error codes, in CommonMark with GitHub's tables. */
const errorRows = (): string =>
  Object.entries(errorMeaning)
    .map(([code, meaning]) => `| ${errorStatus[code as ErrorCode]} | \`${code}\` | ${meaning} |`)
    .join("\n");

const about = {
  title: "Purser",
  version: packageFile.version,
  description: `Prepaid credits, and a person's data on request.

**Keys.** Send \`Authorization: Bearer <key>\`. A secret key (\`sk_…\`) is for your backend. A publishable key (\`pk_…\`) is safe
to use in a browser, together with the user's own token in \`X-User-Token\`. Each key works in one mode, live or test. A relay key
(\`rk_…\`) sends only analytics, for a server that forwards the events of others. A request from a web page (one with
\`Origin\` and \`Sec-Fetch-Site\`) that has a secret key, a relay key or the admin token is \`forbidden\`.

**Errors** have one shape: \`{ "error": { "code", "message", "param"?, "details"?, "requestId" } }\`.
Rely on \`code\`: the list of codes is closed. Errors are checked in this order: path, method, key, kind of key, size, shape of
the arguments, existence, rule.

**Unknown fields** of a body are rejected, so that a misspelt field is never silently ignored. Unknown query parameters are ignored.

**Amounts** are exact: up to three decimals of \`count\`, \`tokens\` and \`seconds\`, up to six of \`cents\`. An amount that you
grant or set with more decimals is rejected. A used quantity is rounded to 15 significant digits and then up, with a warning. **Times** are ISO 8601.

**Repeats.** A POST or PATCH with \`x-idempotent\` has no further effect when it is sent again: with the same value of the \`field\` that it
names, or, if it is \`true\`, with the same body. GET, PUT and DELETE are always idempotent.

**Reads after writes.** Every response to a valid key has the header \`x-d1-bookmark\`. Send it with a later read to see at least that state.

**Clients.** The repository has one for TypeScript and one for Python. \`/purser-balance.js\` is an element that shows a user's credits on your page.
\`/llms.txt\` tells a coding assistant how to call Purser.

# Errors

All error codes. The list is closed.

| Status | Code | Meaning |
| --- | --- | --- |
${errorRows()}`,
  tags: [
    {
      name: "Credits",
      description:
        "Prepaid balances: granted from packs, spent, adjusted and revoked. The ledger records every change.",
    },
    { name: "Usage", description: "Usage events and reservations, which debit balances, and usage totals." },
    {
      name: "Analytics",
      description: "The routes of PostHog's clients. Set `api_host` to this deployment and use a key of Purser.",
    },
    { name: "People", description: "Consent, and the export and the erasure of a person's data." },
    {
      name: "Payments",
      description: "Stripe's events: paid credits are granted, and refunded or disputed ones are taken back.",
    },
    {
      name: "Administration",
      description:
        "Applications, keys, packs and adjustments. Needs the admin token, or an administration key with the operation's scope.",
    },
    { name: "Messages", description: "The messages to endpoints, signed according to Standard Webhooks 1.0." },
    { name: "Service", description: "The service itself. Needs no key." },
  ],
};

let document: OpenApiDocument | undefined;

/** Returns the OpenAPI document. */
export function apiDocument(): OpenApiDocument {
  document ??= openApiDocument(about, describedOperations);
  return document;
}
