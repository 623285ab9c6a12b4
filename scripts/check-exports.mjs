// Checks that whatever a file exports is imported by another one: what nobody imports loses its `export`, or goes.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** What tools call, by the name that they look for. */
const ENTRIES = new Set(["src/reference/files.tsx referenceFiles"]);

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
  for (const [, from, name] of text.matchAll(/typeof import\("(\.[^"]+)"\)(?:\.(\w+))?/g)) {
    imported.add(`${join(dirname(file), from)} ${name ?? "*"}`);
  }
  for (const [, kind, name] of text.matchAll(/^export (?:async )?(function\*?|const|class|interface|type) (\w+)/gm)) {
    // A type that an exported function speaks of is part of what the file gives.
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
