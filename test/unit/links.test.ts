import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, it } from "vitest";

// `git ls-files` would reject a folder that belongs to another user.
const pages = globSync("**/*.md", { exclude: (path) => /(^|\/)(node_modules|dist|\.[^/]*)$/.test(path) }).toSorted();
const textOf = (page: string) => readFileSync(page, "utf8");
const withoutCode = (text: string) => text.replace(/^```[\s\S]*?^```$/gm, "");

/** The anchor of a heading, as GitHub makes it. */
const anchorOf = (heading: string) =>
  heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");
const anchorsOf = (page: string) =>
  [...withoutCode(textOf(page)).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading));

const scripts = Object.keys(JSON.parse(textOf("package.json")).scripts);

it("the pages of the repository contain links only to existing files and headings", () => {
  const links = pages.flatMap((page) =>
    [...withoutCode(textOf(page)).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !/^(https?|mailto):/.test(link))
      .map((link) => {
        const [path = "", anchor] = link.split("#");
        return { page, link, anchor, target: path === "" ? page : normalize(join(dirname(page), path)) };
      }),
  );
  expect(links.length).toBeGreaterThan(80);
  const isBroken = ({ target, anchor }: (typeof links)[number]) =>
    !existsSync(target) || (anchor !== undefined && target.endsWith(".md") && !anchorsOf(target).includes(anchor));
  expect(links.filter(isBroken).map(({ page, link }) => `${page}: ${link}`)).toEqual([]);
});

it("the pages of the repository mention only existing files of the repository", () => {
  const names = pages.flatMap((page) =>
    [...textOf(page).matchAll(/`((?:src|test|scripts|examples|docs|clients|bench|drizzle|tools)\/[\w./-]+)`/g)].map(
      ([, name = ""]) => ({ page, name }),
    ),
  );
  expect(names.length).toBeGreaterThan(50);
  // A path may be the common beginning of several files.
  const isThere = (name: string) => existsSync(name) || globSync(`${name}*`).length > 0;
  expect(names.filter(({ name }) => !isThere(name)).map(({ page, name }) => `${page}: ${name}`)).toEqual([]);
});

it("the pages of the repository mention only existing npm commands", () => {
  const named = pages.flatMap((page) =>
    [...textOf(page).matchAll(/npm run (?:--silent )?([\w:]+)/g)].map(([, name = ""]) => ({ page, name })),
  );
  expect(named.length).toBeGreaterThan(15);
  const inWorkspace = new Set(["build", "check", "generate", "operations", "types"]);
  const missing = named.filter(({ name }) => !scripts.includes(name) && !inWorkspace.has(name));
  expect(missing).toEqual([]);
});
