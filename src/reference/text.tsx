import type { Child } from "hono/jsx";

const INLINE = /(`[^`]+`|\*\*[^*]+\*\*)/;

/** Shows one line of the CommonMark that the descriptions use: `code` and **bold**. */
export function InlineText({ text }: { text: string }) {
  return (
    <>
      {text.split(INLINE).map((part) => {
        if (part.startsWith("`")) return <code>{part.slice(1, -1)}</code>;
        if (part.startsWith("**")) return <strong>{part.slice(2, -2)}</strong>;
        return part;
      })}
    </>
  );
}

export function Paragraphs({ text }: { text: string }) {
  return (
    <>
      {text.split("\n\n").map((paragraph) => (
        <p>
          <InlineText text={paragraph} />
        </p>
      ))}
    </>
  );
}

const JSON_TOKEN = /("(?:[^"\\]|\\.)*"(?:\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?)/;

const codeClassOf = (token: string): string => {
  if (token.endsWith(":")) return "key";
  return token.startsWith('"') ? "string" : "literal";
};

/** Shows JSON with coloured parts. */
export function ColouredJson({ text }: { text: string }) {
  const parts: Child[] = text
    .split(JSON_TOKEN)
    .map((part, index) => (index % 2 === 1 ? <span class={codeClassOf(part)}>{part}</span> : part));
  return <>{parts}</>;
}
