import { isAdminKey } from "../db/key-form.ts";
import { PurserError } from "../errors.ts";

const BEARER = /^Bearer +([^\s]+) *$/i;

/**
 * Returns the bearer token of the request. Throws `invalid_key` when there is none. Hono's `bearerAuth` is not used: its errors
 * have no advice, and not the form of this API's errors.
 */
export function bearerToken(request: Request): string {
  const header = request.headers.get("authorization");
  const token = BEARER.exec(header ?? "")?.[1];
  if (token !== undefined) return token;
  throw invalidKey(header === null ? absentKeyAdvice(request) : headerAdvice(header));
}

/** Returns `invalid_key` (401). By default its message says that a well-formed key is not valid. */
export function invalidKey(
  message = "The key is unknown or was revoked. Send one that the application has on this deployment.",
): PurserError {
  return new PurserError("invalid_key", message, { headers: { "WWW-Authenticate": "Bearer" } });
}

/**
 * Texts that callers send by mistake instead of a key, recognised by their form, with advice. The advice says what the text seems
 * to be, and never contains it.
 */
const FORMS: readonly (readonly [form: RegExp, advice: string])[] = [
  [
    /^(undefined|null|none|nil|nan|true|false|\[object object\])$/i,
    "This is not an API key: the variable that should hold the key is not set.",
  ],
  [/^\$|^%\w+%$|^\{\{?|^<|your[-_]|^x+$/i, "The sent value is a placeholder. Replace it with the key."],
  [/^["'`]|["'`]$/, "The key has quotes around it. Send it without them."],
  [
    /\.\.\.|\u2026|\u00e2\u0080\u00a6|\*\*/,
    "This is the hint of a key, not the whole key. The whole key is shown once, when it is created.",
  ],
  [
    /^ey[\w-]+\.[\w-]+\.[\w-]*$/,
    "This is a JWT, not a key. Send a user's JWT as `X-User-Token`, and a publishable key as `Authorization: Bearer <key>`.",
  ],
  [
    /^ey[\w-]+\.[\w-]+$/,
    "This is the token of an export link, not a key. Open the link, `GET /api/v1/export-download?token=…`, without a key.",
  ],
  [/^ph[cxsr]_/, "This is a key of PostHog. Send a key of Purser, which begins with `pk_` or `sk_`."],
  [/^whsec_/, "This is the signing secret of webhooks. Send a key of Purser, which begins with `sk_` or `pk_`."],
  [
    /^[spr]k_(live|test)_.{68,}$/,
    "This is a key of Stripe, which has the same prefix as a key of Purser but is longer. Send a key of Purser.",
  ],
  [
    /^[spr]k_(live|test)_/,
    "The key is mistyped or incomplete, or is not a key of Purser (Stripe's keys have the same prefix). Copy the whole key again.",
  ],
  [
    /^[spr]k[-_]/i,
    "The key has the wrong prefix: a key begins with `sk_`, `pk_` or `rk_`, then `live_` or `test_`, in lower case.",
  ],
  [/^key_/, "This is the id of a key. The key begins with `sk_` or `pk_`, and is shown once, when it is created."],
  [/^[a-z]{3}_[0-9A-Za-z]{22}/, "This is an id, not a key. A key begins with `sk_` or `pk_`."],
];

const ADVISED_CHARACTERS_MAX = 1_000;

/** Returns the advice for a text, or undefined for an unknown form. A very long text is not checked. */
const describeForm = (text: string): string | undefined =>
  text.length > ADVISED_CHARACTERS_MAX ? undefined : FORMS.find(([form]) => form.test(text))?.[1];

/** Returns what to change about a text that was sent instead of an application's key. */
export function keyAdvice(text: string): string {
  if (isAdminKey(text)) {
    return "This is an administration key, which works only under `/api/v1/admin`. Send a key of the application.";
  }
  return (
    describeForm(text) ??
    "This is not a key of Purser: keys begin with `sk_` or `pk_`. The admin token works only under `/api/v1/admin`."
  );
}

/** Returns what to change about a text that was sent instead of the admin token. */
export function adminTokenAdvice(text: string): string {
  if (/^ak_/.test(text)) return "The administration key is mistyped or incomplete. Copy the whole key again.";
  if (/^[spr]k_(live|test)_/.test(text)) {
    return "This is a key of an application. Administration needs the admin token, which the deployment sets in `ADMIN_TOKEN`.";
  }
  return describeForm(text) ?? "The admin token is not the one that the deployment sets in `ADMIN_TOKEN`.";
}

const SEND_KEY = "Send the key as `Authorization: Bearer <key>`";

/** Returns what to change about an `Authorization` header without a bearer key. */
function headerAdvice(header: string): string {
  if (/^(Bearer\b[\s:]*)?$/i.test(header)) {
    return `${SEND_KEY}: the header has no key. Is the variable that should hold the key set?`;
  }
  if (/^Bearer\s+Bearer\b/i.test(header)) return `${SEND_KEY}: the header has \`Bearer\` twice.`;
  if (/^Bearer\s*[:=]/i.test(header)) return `${SEND_KEY}: separate \`Bearer\` and the key by one space only.`;
  if (/,\s*Bearer\b/i.test(header)) return `${SEND_KEY}, in one header: the header was sent twice.`;
  if (/^(Basic|Digest|Token|ApiKey|Api-Key|Key|JWT)\s/i.test(header)) return `${SEND_KEY}: the scheme is \`Bearer\`.`;
  if (/^Bearer\s/i.test(header)) return `${SEND_KEY}: the key has white space in it.`;
  return `${SEND_KEY}: \`Bearer\` and a space are missing before the key.`;
}

/** Headers and query parameters in which other services expect keys. */
const OTHER_HEADERS = ["x-api-key", "api-key", "apikey", "x-auth-token", "x-authorization", "authentication", "x-key"];
const OTHER_PARAMETERS = ["api_key", "apikey", "apiKey", "key", "access_token", "token", "secret"];

/** Returns what to change about a request without the `Authorization` header. */
function absentKeyAdvice({ headers, url }: Request): string {
  const { searchParams } = new URL(url);
  const other = OTHER_HEADERS.find((name) => headers.has(name));
  if (other !== undefined) return `${SEND_KEY}, not in the header \`${other}\`.`;
  if (OTHER_PARAMETERS.some((name) => searchParams.has(name))) {
    return `${SEND_KEY}, not in the URL, because URLs are logged. Replace a secret key that was sent in a URL.`;
  }
  if (headers.has("x-user-token")) return `${SEND_KEY}: \`X-User-Token\` needs a publishable key too.`;
  return `${SEND_KEY}.`;
}

const SECRET_NAMES = {
  secret: "secret key",
  relay: "relay key",
  admin: "admin token",
  adminKey: "administration key",
} as const;

/**
 * Throws `forbidden` for a browser's request with a key that must stay secret (W11). Browsers send both headers. Servers of some
 * frameworks send `Origin` without `Sec-Fetch-Site`.
 */
export function rejectBrowserPage({ headers }: Request, kind: keyof typeof SECRET_NAMES): void {
  if (!headers.has("origin") || !headers.has("sec-fetch-site")) return;
  const name = SECRET_NAMES[kind];
  throw new PurserError(
    "forbidden",
    `This request comes from a page in a browser, where anybody can read its ${name}. Remove the ${name} from the page, and ` +
      "replace it. A page uses a publishable key (`pk_…`).",
  );
}
