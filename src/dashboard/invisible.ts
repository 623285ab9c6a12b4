/** Tags and characters. A page leaves tags unchanged, whose attributes carry values, and what a form sends back or a script runs. */
const TAG_OR_INVISIBLE =
  /<(textarea|script|style)\b[^>]*>.*?<\/\1>|<[^>]*>|[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u2800]/gsu;

/** Shows the invisible and direction-changing characters of a page's texts as escapes such as `\u{202e}` (W9). */
export const showInvisible = (html: string): string =>
  html.replace(TAG_OR_INVISIBLE, (found) =>
    found.startsWith("<") || /^[\t\n\r]$/.test(found) ? found : `\\u{${found.codePointAt(0)?.toString(16)}}`,
  );
