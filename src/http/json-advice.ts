/** What to change about a text that is no JSON, by its form alone: a message repeats nothing of it. */
export function jsonAdvice(text: string, cause: unknown): string {
  const start = text.trimStart();
  if (start === "") return "The body is empty. Send the arguments as a JSON object in the body.";
  if (/^\[object /.test(start))
    return "The body is not JSON: an object was turned into text. Send JSON.stringify(object).";
  if (/^--[^\r\n]+\r?\n/.test(start) || /^[\w.[\]%-]+=/.test(start)) {
    return "The body is a form, not JSON. Send a JSON object with `Content-Type: application/json`.";
  }
  if (start.startsWith("<")) return "The body is XML or HTML, not JSON. Send a JSON object.";
  if (/^\{\s*'|[[:,]\s*'/.test(start)) return "The body is not valid JSON: strings and names have double quotes.";
  if (/,\s*[}\]]/.test(start)) return "The body is not valid JSON: no comma comes after the last element.";
  if (/^\{\s*[A-Za-z_$]/.test(start)) return "The body is not valid JSON: names have double quotes.";
  if (/^[ \t]*\/[/*]/m.test(start)) return "The body is not valid JSON: it may have no comments.";
  if (/[:[,]\s*(undefined|NaN|-?Infinity|None|True|False)\b/.test(start)) {
    return "The body is not valid JSON: its values are strings, numbers, true, false, null, objects and lists.";
  }
  const place = cause instanceof Error ? /position (\d+)/.exec(cause.message)?.[1] : undefined;
  return place === undefined
    ? "The body is not valid JSON. Is it cut?"
    : `The body is not valid JSON: it goes wrong after ${place} characters.`;
}
