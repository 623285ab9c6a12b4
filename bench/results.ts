import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FILE = join(import.meta.dirname, "RESULTS.md");

/** The sections of RESULTS.md that scripts of their own write; `npm run bench` keeps them. */
const OWN = ["Silent receivers", "Worst requests"] as const;

const headed = (heading: string) => `## ${heading}\n`;
const sectionsOf = (text: string): string[] => text.split(/^(?=## )/m);

/** Writes the report of `npm run bench`, and keeps the sections of the other scripts. */
export function writeReport(text: string): void {
  const kept = sectionsOf(readFileSync(FILE, "utf8")).filter((one) => OWN.some((name) => one.startsWith(headed(name))));
  writeFileSync(FILE, [text.trimEnd(), ...kept.map((one) => one.trim())].join("\n\n").concat("\n"));
}

/** Writes a section, in place of the one with the same heading. */
export function writeSection(heading: (typeof OWN)[number], lines: readonly string[]): void {
  const others = sectionsOf(readFileSync(FILE, "utf8")).filter((one) => !one.startsWith(headed(heading)));
  const own = [headed(heading), ...lines].join("\n");
  writeFileSync(FILE, [...others.map((one) => one.trim()), own.trim()].join("\n\n").concat("\n"));
}
