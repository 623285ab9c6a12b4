/**
 * Fails when a comment, or a page of documentation, cites a rule that docs/rules.md does not define: `(C13)`, `W3a`,
 * `U1 to U4`. `D1` is not checked, because it is the database more often than a rule.
 */
import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";

const root = join(import.meta.dirname, "..");
const read = (path) => readFileSync(join(root, path), "utf8");

const FOLDERS = ["src", "test", "scripts", "bench", "drizzle", "clients", "examples", "docs"];
/** Generated from Cloudflare's own types. */
const FOREIGN = new Set(["src/env.d.ts"]);

/** A code alone: not part of a longer word, an escape (`%E2`), bytes (`C3:A9`), a percentile (`P90`) or a storage (`S3 bucket`). */
const CODE =
  /(?<![\w%:+\\/.<-])(?!P[5-9]\d|S3 (?:storage|bucket))(?:(?:PR|ME|TZ|CL|[WCUPHSELQRANT])[1-9]\d?|D[2-9])[a-z]?(?![\w%>-]|:\w)/g;

// A comment follows white space or punctuation, because URLs contain `//` and globs contain `/*`.
const SCRIPT = /(?<=^|[\s({[,;)}])(?:\/\*[\s\S]*?\*\/|\/\/.*)/gm;
const COMMENT = {
  ".ts": SCRIPT,
  ".tsx": SCRIPT,
  ".mts": SCRIPT,
  ".js": SCRIPT,
  ".mjs": SCRIPT,
  ".sql": /\/\*[\s\S]*?\*\/|--.*/g,
  ".html": new RegExp(`<!--[\\s\\S]*?-->|${SCRIPT.source}`, "gm"),
};
const FENCED = /^ *```[\s\S]*?^ *```/gm;

/** The same text, with spaces in place of everything that may not cite a rule. */
function citing(path, text) {
  const blank = (passage) => passage.replace(/[^\n]/g, " ");
  if (extname(path) === ".md") return text.replace(FENCED, blank);
  let kept = blank(text);
  for (const { 0: comment, index } of text.matchAll(COMMENT[extname(path)])) {
    kept = kept.slice(0, index) + comment + kept.slice(index + comment.length);
  }
  return kept;
}

const isRead = (path) => (extname(path) in COMMENT || extname(path) === ".md") && !FOREIGN.has(path);
const within = (folder) => {
  const entries = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
};
const present = new Set(readdirSync(root));
const paths = [...present, ...FOLDERS.filter((folder) => present.has(folder)).flatMap(within)].filter(isRead);

const RULES = "docs/rules.md";
const defined = new Set(Array.from(read(RULES).matchAll(/^(?:#+ |\*\*)([A-Z]+\d+[a-z]?)\. /gm), ([, code]) => code));

for (const path of paths.sort()) {
  for (const [index, line] of citing(path, read(path)).split("\n").entries()) {
    for (const [code] of line.matchAll(CODE)) {
      if (defined.has(code)) continue;
      console.error(`${path}:${index + 1}: ${RULES} defines no ${code}.`);
      process.exitCode = 1;
    }
  }
}
