/**
 * Checks names and prose. Fails on top-level names that several files of src share, on expressions that are hard to read, on
 * comments and pages that name a file that does not exist, and where docs/architecture.md names a room or an identifier that does
 * not exist.
 */
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";

/** Expressions that are hard to read, each with a plain one. */
const DENIED = [
  [/\bof before\b/i, "earlier, previous"],
  [/\bof late\b/i, "recent, recently"],
  [/\bgoes? off\b|\bgone off\b|\bwent off\b/i, "fire"],
  [/\bbehind (?:the|an|its|each) (?:answer|response)s?\b/i, "after the response"],
  [/\bat the most\b/i, "at most"],
  [/\b(?:begins?|made|makes?|planned|judges?|told|stored) anew\b/i, "again"],
  [/\bfor ever\b/i, "forever"],
  [/\bgone back to\b/i, "resubmitted"],
  [/\bwhosever\b|\bwhosoever\b/i, "any"],
  [/\bComputed hourly\b/i, "Updated 18:09 UTC, every hour."],
  [/\bDue, but not there\b/i, "Already spent"],
  [/\bunmatched: no_pack\b/i, "No such pack"],
  [/\bSends <code>credits\.low/i, "Send"],
];
/**
 * A sentence, a comment, a test's name or a description that begins with one of these words. They put off its subject or its verb.
 * A question may begin so.
 */
const BEGINNING =
  /(?:^\s*(?:\/\*\* |\/\/ |\* |- )?|\/\*\* |\/\/ |[.!?] |\b(?:it|describe|test)\(\s*["'`])((?:What|Whoever|Whatever|That of|Of an?) )(?![^.]*\?)/;
const PROSE = [
  "src/**/*.{ts,tsx}",
  "test/**/*.{ts,tsx}",
  "scripts/**/*.mjs",
  "bench/**/*.ts",
  "docs/**/*.md",
  "*.md",
  "clients/*/README.md",
  "clients/**/*.{ts,tsx}",
  "examples/*",
];

/** Dependencies and generated files. */
const FOREIGN = ["**/node_modules/**", "**/generated/**", "**/dist/**", "**/.examples/**"];

const flaws = [];
const read = (file) => readFileSync(file, "utf8");

const DECLARED = /^(?:export )?(?:declare )?(?:async )?(?:function\*?|const|let|class|interface|type) (\w+)/gm;
const filesByName = new Map();
const identifiers = new Set();
for (const file of globSync("src/**/*.{ts,tsx}").sort()) {
  const text = read(file);
  for (const [, name] of text.matchAll(DECLARED)) {
    filesByName.set(name, (filesByName.get(name) ?? new Set()).add(file));
  }
  for (const [name] of text.matchAll(/\w+/g)) identifiers.add(name);
}
for (const file of globSync(["drizzle/*.sql", "scripts/*.mjs", "test/**/*.ts", "package.json"])) {
  for (const [name] of read(file).matchAll(/\w+/g)) identifiers.add(name);
}
for (const [name, files] of filesByName) {
  if (files.size > 1) flaws.push(`The top-level name ${name} has several meanings: ${[...files].join(", ")}`);
}

for (const file of globSync(PROSE, { exclude: FOREIGN }).sort()) {
  if (file === "scripts/check-prose.mjs") continue;
  read(file)
    .split("\n")
    .forEach((line, index) => {
      if (/^\s*for \(/.test(line)) return;
      for (const [expression, instead] of DENIED) {
        const found = expression.exec(line)?.[0];
        if (found !== undefined) flaws.push(`${file}:${index + 1}: "${found}"; write: ${instead}`);
      }
      const [, beginning] = BEGINNING.exec(line) ?? [];
      if (beginning !== undefined)
        flaws.push(`${file}:${index + 1}: begins with "${beginning}"; begin with the subject`);
    });
}

/** The files that comments and pages name. Other files have been renamed too often without the text. */
const kept = globSync(
  ["{src,test,scripts,bench,docs,clients,examples,drizzle,tools}/**/*", "*", "{.ci,.purser}/**/*"],
  {
    exclude: FOREIGN,
  },
);
const exists = (path) => kept.some((file) => file === path || file.endsWith(`/${path}`));
/** Files that a reader writes, or that a command writes. */
const NOT_KEPT = ["setup.mjs", "shop.mjs", "wrangler.local.toml"];
const NAMED = /(?<![\w./*-])\w[\w./-]*\.(?:tsx?|mjs|sql|md)\b(?![\w.])/g;
for (const file of globSync([
  "{src,test,scripts,bench}/**/*.{ts,tsx,mjs}",
  "drizzle/*.sql",
  "{docs,test}/**/*.md",
  "*.md",
])) {
  if (file === "CHANGELOG.md") continue;
  const isPage = file.endsWith(".md");
  const text = isPage ? read(file).replace(/^ *```[\s\S]*?^ *```/gm, (code) => code.replace(/[^\n]/g, "")) : read(file);
  for (const [index, line] of text.split("\n").entries()) {
    const words = isPage
      ? [...line.matchAll(/`([\w./-]+)`/g)].map(([, code]) => code).join(" ")
      : (/(?:\/\/|\/\*\*?|^\s*\*|--) (.*)$/.exec(line)?.[1] ?? "");
    for (const [path] of words.matchAll(NAMED)) {
      if (!exists(path) && !NOT_KEPT.includes(path)) flaws.push(`${file}:${index + 1}: no file ${path}`);
    }
  }
}

const ARCHITECTURE = "docs/architecture.md";
const architecture = read(ARCHITECTURE);
const [, tree] = /^## The house\n[\s\S]*?```\n([\s\S]*?)```/m.exec(architecture) ?? [];
const rooms = (folder) =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
for (const room of [...rooms("src"), ...rooms("src/books")]) {
  if (!tree?.includes(` ${room}/`)) flaws.push(`${ARCHITECTURE}: the room ${room} is missing from the tree`);
}
for (const [, room] of (tree ?? "").matchAll(/^ {2,4}(\w+)\/ /gm)) {
  if (!existsSync(`src/${room}`) && !existsSync(`src/books/${room}`)) flaws.push(`${ARCHITECTURE}: no room ${room}`);
}
for (const folder of rooms(".").filter((name) => !/^(?:\.|docs$|node_modules$|dist$)/.test(name))) {
  if (!tree?.includes(`\n${folder}/`) && folder !== "src")
    flaws.push(`${ARCHITECTURE}: the folder ${folder} is missing`);
}
for (const [, folder] of (tree ?? "").matchAll(/^(\w+)\/ /gm)) {
  if (!existsSync(folder)) flaws.push(`${ARCHITECTURE}: no folder ${folder}`);
}
const prose = architecture.replace(/^```[\s\S]*?^```/gm, "");
for (const [, code] of prose.matchAll(/`([^`\n]+)`/g)) {
  const isPath = /^[\w./-]+\.(?:tsx?|mjs|sql|md|json)$/.test(code);
  const isFile = (path) => globSync([path, `{src,test,scripts,docs}/**/${path}`]).length > 0;
  if (isPath && !code.startsWith(".") && !isFile(code)) flaws.push(`${ARCHITECTURE}: no file ${code}`);
  const [, name] = /^([a-z]+[A-Z]\w*)(?:\(.*\))?$/.exec(code) ?? [];
  if (name !== undefined && !identifiers.has(name)) flaws.push(`${ARCHITECTURE}: nothing is called ${name}`);
}

if (flaws.length > 0) {
  console.error(flaws.join("\n"));
  process.exitCode = 1;
}
