// Fails when an export is imported by no other file. Then its `export` is removed, or all of it.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Exports that a tool uses by name. */
const ENTRIES = new Set(["src/reference/files.ts referenceFiles"]);

const files = globSync(["{src,test,bench,scripts}/**/*.{ts,tsx,mjs}", "*.config.ts"]).sort();
const imported = new Set();
const exported = [];

for (const file of files) {
  const text = readFileSync(file, "utf8");
  for (const [, names, from] of text.matchAll(/^import (?:type )?\{([^}]*)\} from "(\.[^"]+)";$/gms)) {
    for (const name of names.split(",")) {
      const [original] = name
        .trim()
        .replace(/^type /, "")
        .split(" as ");
      imported.add(`${join(dirname(file), from)} ${original}`);
    }
  }
  for (const [, name, from] of text.matchAll(/^import (?:type )?(\w+|\* as \w+)[^{}]*? from "(\.[^"]+)";$/gm)) {
    imported.add(`${join(dirname(file), from)} ${name.startsWith("*") ? "*" : "default"}`);
  }
  for (const [, from] of text.matchAll(/^export \* from "(\.[^"]+)";$/gm))
    imported.add(`${join(dirname(file), from)} *`);
  for (const [, from, name] of text.matchAll(/typeof import\("(\.[^"]+)"\)(?:\.(\w+))?/g)) {
    imported.add(`${join(dirname(file), from)} ${name ?? "*"}`);
  }
  for (const [, kind, name] of text.matchAll(/^export (?:async )?(function\*?|const|class|interface|type) (\w+)/gm)) {
    // A type that the file itself uses may be part of an exported function.
    const isSpokenOf = /^(interface|type)$/.test(kind) && text.split(new RegExp(`\\b${name}\\b`)).length > 2;
    if (!isSpokenOf) exported.push(`${file} ${name}`);
  }
}

const unused = exported.filter((name) => {
  const [file] = name.split(" ");
  return !imported.has(name) && !imported.has(`${file} *`) && !ENTRIES.has(name);
});
if (unused.length > 0) {
  console.error(`Nobody imports:\n${unused.join("\n")}`);
  process.exitCode = 1;
}
