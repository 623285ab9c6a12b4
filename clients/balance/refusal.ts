/** A refusal by Purser, with its error code from the reference. */
export class Refusal extends Error {
  override readonly name = "PurserError";
  readonly code: string | undefined;
  readonly details: { readonly reason?: string } | undefined;

  constructor({ code, message, details }: { code?: string; message: string; details?: { reason?: string } }) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** Advice for the developer of the page, by the code of a refusal. */
const ADVICE: Readonly<Record<string, string>> = {
  invalid_key: "Give publishable-key a key of this Purser that was not revoked.",
  forbidden:
    "Check that user-id is the user of the token, that the application has a setting for end-user tokens in the key's mode, and that the setting's origins include this page's origin.",
  invalid_user_token: "Compare the token that getToken returns with the application's setting for end-user tokens.",
  rate_limited: "The element reads again when the limit allows it.",
  unknown_answer: "Check the attribute url, and any proxy in front of Purser.",
};

const said = new Set<string>();

/** Writes to the console why nothing is shown, and what to do. Writes equal messages once. */
export function warnOf(error: unknown): void {
  const { message } = error instanceof Error ? error : { message: String(error) };
  const reason = error instanceof Refusal && error.details?.reason ? ` (${error.details.reason})` : "";
  let advice = "";
  if (error instanceof Refusal) advice = ADVICE[error.code ?? ""] ?? "";
  else if (error instanceof TypeError && /fetch|load|network/i.test(message)) {
    advice =
      "Check the attribute url, the page's Content-Security-Policy (connect-src), and that Purser can be reached.";
  }
  const text = `<purser-balance> cannot show the credits: ${message}${reason} ${advice}`.trimEnd();
  if (said.has(text)) return;
  said.add(text);
  console.warn(text);
}
