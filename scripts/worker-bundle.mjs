/** The Worker in one file, as it is deployed. Rolldown packs it 4 KiB tighter, by gzip, than Wrangler does, and takes plugins. */
import { globSync } from "node:fs";
import { join, relative } from "node:path";
import { rolldown } from "rolldown";
import { squeezeSql } from "./squeeze-sql.mjs";

const root = join(import.meta.dirname, "..");

const sqlOnOneLine = {
  name: "sql-on-one-line",
  transform: {
    filter: { id: /\.ts$/ },
    handler(code, id) {
      const squeezed = squeezeSql(id, code);
      return { code: squeezed.toString(), map: squeezed.generateMap({ source: id, hires: true }).toString() };
    },
  },
};

/** gzip looks 32 KiB back, so what is alike is smaller side by side: first what reads requests. What an entry does not need is left out. */
const readersFirst = (entry) => ({
  name: "readers-first",
  resolveId: (id) => (id === "worker" ? id : null),
  load(id) {
    if (id !== "worker") return null;
    const readers = ["src/http/validate.ts", ...globSync("src/*/schemas.ts", { cwd: root }).sort()];
    const imports = readers.map((file) => `import ${JSON.stringify(join(root, file))};`);
    return [...imports, `export { default } from ${JSON.stringify(join(root, entry))};`].join("\n");
  },
});

/** What `entry`, a path from the root, is bundled to: its code, the map of its places, and the bytes of each file before packing. */
export async function bundleWorker(entry) {
  const bundle = await rolldown({
    cwd: root,
    input: "worker",
    external: [/^cloudflare:/],
    // Wrangler's own: what the packages have for a Worker, if they have something.
    platform: "neutral",
    resolve: {
      mainFields: ["module", "main"],
      conditionNames: ["workerd", "worker", "browser", "import"],
    },
    transform: { target: "es2024" },
    treeshake: { moduleSideEffects: [{ test: /\/(validate|schemas)\.ts$/, sideEffects: false }] },
    plugins: [readersFirst(entry), sqlOnOneLine],
    checks: { bundlerTimings: false },
    onLog(level, { message }) {
      if (level === "warn") throw new Error(message);
    },
  });
  try {
    const { output } = await bundle.generate({ dir: root, minify: true, comments: false, sourcemap: "hidden" });
    const [{ code, map, modules }] = output;
    const files = Object.entries(modules).map(([id, { renderedLength }]) => [relative(root, id), renderedLength]);
    return { code, map: map.toString(), files: new Map(files.filter(([, bytes]) => bytes > 0)) };
  } finally {
    await bundle.close();
  }
}
