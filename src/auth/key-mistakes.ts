/** What is told of a text that is not the key which a route takes. It says what the text seems to be, and never repeats it. */

/** Texts that stand where a key should, told by their form alone: whether a key exists, only the database knows. */
const FORMS: readonly (readonly [form: RegExp, advice: string])[] = [
  [
    /^(undefined|null|none|nil|nan|true|false|\[object object\])$/i,
    "What was sent is no key: the variable that should hold the key is not set.",
  ],
  [/^\$|^%\w+%$|^\{\{?|^<|your[-_]|^x+$/i, "What was sent is a placeholder. Put the key itself there."],
  [/^["'`]|["'`]$/, "The key has quotes around it. Send it without them."],
  [
    /\.\.\.|…|\u00e2\u0080\u00a6|\*\*/,
    "This is the hint of a key, which was cut. The key itself is shown once, when it is created.",
  ],
  [
    /^ey[\w-]+\.[\w-]+\.[\w-]*$/,
    "This is a JWT, not a key. Send a user's JWT as `X-User-Token`, and a publishable key as `Authorization: Bearer <key>`.",
  ],
  [
    /^ey[\w-]+\.[\w-]+$/,
    "This is the token of an export's link, not a key. Open the link itself, `GET /api/v1/export-download?token=…`, without a key.",
  ],
  [/^ph[cxsr]_/, "This is a key of PostHog. Send a key of Purser, which begins with `pk_` or `sk_`."],
  [/^whsec_/, "This is the signing secret of webhooks. Send a key of Purser, which begins with `sk_` or `pk_`."],
  [
    /^[spr]k_(live|test)_.{68,}$/,
    "This is a key of Stripe, which is longer than Purser's and begins alike. Send a key that Purser made.",
  ],
  [
    /^[spr]k_(live|test)_/,
    "The key is mistyped or cut, or is not one that Purser made (Stripe's begin alike). Copy the whole key again.",
  ],
  [
    /^[spr]k[-_]/i,
    "The key's beginning is wrong: it is `sk_`, `pk_` or `rk_`, then `live_` or `test_`, in lower case.",
  ],
  [
    /^key_/,
    "This is the id of a key. The key itself begins with `sk_` or `pk_`, and is shown once, when it is created.",
  ],
  [/^[a-z]{3}_[0-9A-Za-z]{22}/, "This is an id, not a key. A key begins with `sk_` or `pk_`."],
];

const CHARACTERS_MAX = 1_000;

/** A text that is longer than anything that is sent by mistake is told nothing. */
const formOf = (text: string): string | undefined =>
  text.length > CHARACTERS_MAX ? undefined : FORMS.find(([form]) => form.test(text))?.[1];

/** What to change, where an application's key is expected and another text was sent. */
export function keyAdvice(text: string): string {
  return (
    formOf(text) ??
    "This is not a key of Purser: keys begin with `sk_` or `pk_`. The admin token opens `/api/v1/admin` and nothing else."
  );
}

/** What to change, where the admin token is expected and another text was sent. */
export function adminTokenAdvice(text: string): string {
  if (/^[spr]k_(live|test)_/.test(text)) {
    return "This is a key of an application. The administration takes the admin token, which the deployment sets in `ADMIN_TOKEN`.";
  }
  return formOf(text) ?? "The admin token is not the one that the deployment sets in `ADMIN_TOKEN`.";
}

const HOW = "Send the key as `Authorization: Bearer <key>`";

/** What to change about a header `Authorization` that is no bearer key. */
export function headerAdvice(header: string): string {
  if (/^(Bearer\b[\s:]*)?$/i.test(header)) return `${HOW}: the header has no key. Is the variable that holds it set?`;
  if (/^Bearer\s+Bearer\b/i.test(header)) return `${HOW}: \`Bearer\` stands there twice.`;
  if (/^Bearer\s*[:=]/i.test(header)) return `${HOW}: after \`Bearer\` comes a space and nothing else.`;
  if (/,\s*Bearer\b/i.test(header)) return `${HOW}, in one header: it was sent twice.`;
  if (/^(Basic|Digest|Token|ApiKey|Api-Key|Key|JWT)\s/i.test(header)) return `${HOW}: the scheme is \`Bearer\`.`;
  if (/^Bearer\s/i.test(header)) return `${HOW}: the key has white space in it.`;
  return `${HOW}: \`Bearer\` and a space are missing before the key.`;
}

/** Other headers, and parameters of an address, in which keys are sent to other services. */
const OTHER_HEADERS = ["x-api-key", "api-key", "apikey", "x-auth-token", "x-authorization", "authentication", "x-key"];
const OTHER_PARAMETERS = ["api_key", "apikey", "apiKey", "key", "access_token", "token", "secret"];

/** What to change about a request without the header `Authorization`. */
export function absentKeyAdvice(
  header: (name: string) => string | undefined,
  query: (name: string) => string | undefined,
): string {
  const other = OTHER_HEADERS.find((name) => header(name) !== undefined);
  if (other !== undefined) return `${HOW}, not in the header \`${other}\`.`;
  if (OTHER_PARAMETERS.some((name) => query(name) !== undefined)) {
    return `${HOW}: a key in an address is not read, because addresses are logged. Replace a secret key that was sent so.`;
  }
  if (header("x-user-token") !== undefined) return `${HOW}, a publishable key beside the \`X-User-Token\`.`;
  return `${HOW}.`;
}
