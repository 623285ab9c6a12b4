import type { CallParams } from "./settings.ts";

/**
 * Estimates of tokens that are rather too high than too low, for any tokenizer: three letters are a token, every digit and sign is
 * one, and every byte of other scripts.
 */

const LETTERS_OF_A_TOKEN = 3;
/** The marks between messages, and the system prompt that providers add for tools. */
const TOKENS_OF_A_CALL = 16;
const TOKENS_OF_A_MESSAGE = 8;
const TOKENS_OF_TOOLS = 800;
/** The most that providers count for a large image, or for a file whose size is not known. */
const TOKENS_OF_AN_IMAGE = 5_000;
const TOKENS_OF_A_LINKED_FILE = 50_000;
const BYTES_OF_A_FILE_TOKEN = 8;

/** Returns the tokens of a text as a fraction. Sums of pieces are rounded up once. */
export function textTokens(text: string): number {
  let tokens = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (/[a-z\s]/i.test(character)) tokens += 1 / LETTERS_OF_A_TOKEN;
    else if (code < 0x80) tokens += 1;
    else if (code < 0x800) tokens += 2;
    else tokens += code < 0x10000 ? 3 : 4;
  }
  return tokens;
}

const fieldsIn = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};

/** Returns the bytes of a file: of an array, a base64 text, or the specification's `{ type, data }`. Null for a URL. */
function bytesOf(data: unknown): number | null {
  if (data instanceof Uint8Array) return data.length;
  if (typeof data === "string") return Math.ceil((data.length * 3) / 4);
  const inner = fieldsIn(data);
  if (typeof inner.text === "string") return inner.text.length * 4;
  return inner.data === undefined ? null : bytesOf(inner.data);
}

function fileTokens(data: unknown, mediaType: string): number {
  if (mediaType.startsWith("image/")) return TOKENS_OF_AN_IMAGE;
  const bytes = bytesOf(data);
  if (bytes === null) return TOKENS_OF_A_LINKED_FILE;
  return mediaType.startsWith("text/") ? bytes : Math.max(bytes / BYTES_OF_A_FILE_TOKEN, TOKENS_OF_AN_IMAGE);
}

/** Returns the tokens of a message, a part or a tool: of all texts in it, with the names of fields, and of its files. */
function valueTokens(value: unknown): number {
  if (typeof value === "string") return textTokens(value);
  if (typeof value === "number" || typeof value === "boolean") return textTokens(String(value));
  if (Array.isArray(value)) return value.reduce((sum: number, each) => sum + valueTokens(each) + 1, 0);
  const fields = fieldsIn(value);
  if (typeof fields.mediaType === "string") return fileTokens(fields.data, fields.mediaType);
  // Options for the provider are no part of the prompt.
  return Object.entries(fields)
    .filter(([name]) => name !== "providerOptions")
    .reduce((sum, [name, inner]) => sum + textTokens(name) + 4 + valueTokens(inner), 0);
}

/** Returns an estimate of the tokens of a call's prompt, its tools and its schema, rather too high than too low. */
export function promptTokens({ prompt, tools = [], responseFormat }: CallParams): number {
  const messages = prompt.reduce((sum: number, each) => sum + TOKENS_OF_A_MESSAGE + valueTokens(each), 0);
  const described = tools.length === 0 ? 0 : TOKENS_OF_TOOLS + valueTokens(tools);
  return Math.ceil(TOKENS_OF_A_CALL + messages + described + valueTokens(responseFormat));
}
