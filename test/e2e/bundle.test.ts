import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, inject, it } from "vitest";

const GZIP_MIB_MAX = 1;

it(`uploads a Worker of less than ${GZIP_MIB_MAX} MiB compressed`, () => {
  const code = readFileSync(join(inject("builtWorker"), "index.js"));
  expect(gzipSync(code).length / 1_024 ** 2).toBeLessThan(GZIP_MIB_MAX);
});
