/**
 * Checks names and prose. Fails on top-level names that several files of src share, on sentences that put off their subject, on
 * comments and pages that name a file that does not exist, on links to no page or heading, and where docs/architecture.md names
 * a module, a guard or an identifier that does not exist, or lacks one.
 */
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

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
      const [, beginning] = BEGINNING.exec(line) ?? [];
      if (beginning !== undefined)
        flaws.push(`${file}:${index + 1}: begins with "${beginning}"; begin with the subject`);
    });
}

/** The files that comments and pages name. */
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

/** The anchor that GitHub gives to a heading. */
const anchorOf = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
const withoutCode = (text) => text.replace(/^ *```[\s\S]*?^ *```/gm, "");
const anchorsIn = (file) =>
  new Set(Array.from(withoutCode(read(file)).matchAll(/^#+ (.*)$/gm), ([, heading]) => anchorOf(heading)));
for (const file of globSync(["docs/**/*.md", "*.md", "clients/*/README.md"], { exclude: FOREIGN })) {
  for (const [, link] of withoutCode(read(file)).matchAll(/\]\(([^)\s]+)\)/g)) {
    const [path, anchor] = link.split("#");
    if (/^[a-z]+:/.test(link)) continue;
    const target = path === "" ? file : join(dirname(file), path);
    if (!existsSync(target)) flaws.push(`${file}: a link to no file ${link}`);
    else if (anchor !== undefined && !anchorsIn(target).has(anchor))
      flaws.push(`${file}: a link to no heading ${link}`);
  }
}

const ARCHITECTURE = "docs/architecture.md";
const architecture = read(ARCHITECTURE);
const [, tree] = /^## The modules\n[\s\S]*?```\n([\s\S]*?)```/m.exec(architecture) ?? [];
const folders = (folder) =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
for (const name of [...folders("src"), ...folders("src/books")]) {
  if (!tree?.includes(` ${name}/`)) flaws.push(`${ARCHITECTURE}: the module ${name} is missing from the tree`);
}
for (const [, name] of (tree ?? "").matchAll(/^ {2,4}(\w+)\/ /gm)) {
  if (!existsSync(`src/${name}`) && !existsSync(`src/books/${name}`)) flaws.push(`${ARCHITECTURE}: no module ${name}`);
}
for (const folder of folders(".").filter((name) => !/^(?:\.|docs$|node_modules$|dist$)/.test(name))) {
  if (!tree?.includes(`\n${folder}/`) && folder !== "src")
    flaws.push(`${ARCHITECTURE}: the folder ${folder} is missing`);
}
for (const [, folder] of (tree ?? "").matchAll(/^(\w+)\/ /gm)) {
  if (!existsSync(folder)) flaws.push(`${ARCHITECTURE}: no folder ${folder}`);
}
const namesIn = (text, pattern) => new Set(Array.from(text.matchAll(pattern), ([, name]) => name));
const raised = namesIn(
  globSync("drizzle/*.sql").map(read).join("\n"),
  /INSERT ON guards\nWHEN[^;]*?RAISE\(ABORT, '(\w+)'\)/g,
);
const [guards = ""] = /^\| Guard .*\n(?:\|.*\n)+/m.exec(architecture) ?? [];
const listed = namesIn(guards, /`((?:guard|limit)_\w+)`/g);
for (const name of raised.symmetricDifference(listed)) flaws.push(`${ARCHITECTURE}: its guards differ in ${name}`);
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
