// `npm run places < log`: replaces each place in the Worker's log by its place in the sources of this commit.
import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { bundleWorker } from "./worker-bundle.mjs";

const { map } = await bundleWorker("src/index.ts");
const places = new SourceMap(JSON.parse(map));
const log = readFileSync(process.stdin.fd, "utf8");
const text = log.replace(/(?<=[ (])index\.js:(\d+):(\d+)/g, (place, line, column) => {
  const { fileName, lineNumber, columnNumber } = places.findOrigin(Number(line), Number(column));
  return fileName === undefined ? place : `${fileName}:${lineNumber}:${columnNumber}`;
});
process.stdout.write(text);
