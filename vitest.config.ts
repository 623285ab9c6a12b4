import { execFileSync } from "node:child_process";
import { existsSync, statfsSync } from "node:fs";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

execFileSync(process.execPath, ["scripts/reference.mjs"]);
process.env.REFERENCE_IS_MADE = "true";

const isSoak = (process.env.SOAK_OPERATIONS ?? "") !== "";

/** Whether so much memory is free to keep files in. A suite's databases are smaller. */
function hasRoom(directory: string, bytes: number): boolean {
  if (!existsSync(directory)) return false;
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize >= bytes;
}
// Databases on disk make every write of a test wait for it: a fifth of the time of test/cross.
if (!isSoak && hasRoom("/dev/shm", 8 * 1_024 ** 3)) process.env.TMPDIR = "/dev/shm";

/** What takes longest, from the longest on. It begins first, so that no core waits for one file at the end. */
const LONGEST = [
  "e2e/dashboard-pages",
  "e2e/receivers",
  "e2e/dashboard-tasks",
  "e2e/dashboard",
  "e2e/operators-day",
  "e2e/docs",
  "e2e/cli",
  "e2e/ai-sdk",
  "e2e/erasure-kills",
  "e2e/packages",
  "e2e/kills",
  "e2e/start",
  "e2e/seed",
  "e2e/python-client",
  "e2e/balance-element",
  "e2e/deploy",
  "e2e/posthog-js",
  "e2e/dashboard-phone",
  "e2e/client-storm",
  "e2e/erasure",
  "e2e/payment-kills",
  "e2e/client",
  "unit/granting-model",
  "unit/payment-orders",
  "cross/faults",
  "cross/takeover",
  "worker/books/credits/bounds",
  "cross/storms",
  "cross/table-scans",
  "cross/rejection-order",
  "cross/keys-at-rest",
  "cross/message-faults",
  "cross/payments-model",
  "cross/interleavings",
  "worker/exports/snapshot",
  "worker/exports/faults",
  "worker/erasure/large",
  "worker/erasure/tombstones",
  "worker/clocks/clock",
  "worker/books/credits/owed-bounds",
  "worker/books/credits/verify",
  "cross/granting-model",
  "cross/model",
  "cross/period-storms",
  "cross/erased-answers",
  "cross/cron-budget",
  "worker/exports/cost",
  "worker/auth/arrivals",
  "worker/books/recurring/recurring",
  "worker/db/guards",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const found = LONGEST.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return found === -1 ? LONGEST.length : found;
    };
    // A project's files stay together: the next one finds its process or its workerd still there.
    const projects = [...new Set((await super.sort(files)).map(({ project }) => project.name))];
    const place = ({ project }: TestSpecification): number => projects.indexOf(project.name);
    return (await super.sort(files)).sort((a, b) => place(a) - place(b) || rank(a) - rank(b));
  }
}

const define = { WITH_REFERENCE: "true" };
// Pure modules share nothing that a test could leave behind.
const unit = {
  define,
  test: { name: "unit", include: ["test/unit/**/*.test.ts"], isolate: false, testTimeout: 120_000 },
};

const worker = {
  define,
  plugins: [
    cloudflareTest(async () => ({
      main: "./src/index.ts",
      wrangler: { configPath: "./wrangler.toml" },
      miniflare: {
        // test/support/cloudflare.d.ts says what each is for.
        d1Databases: { REPLICA: "replica", SPARE: "spare", FLAWED: "flawed", CROWDED: "crowded" },
        bindings: {
          TEST_MIGRATIONS: await readD1Migrations("drizzle"),
          ADMIN_TOKEN: "administrator-token-of-the-tests-0001",
          ANALYTICS_EXPORT_SECRET: "export-secret-of-the-tests",
          SETTINGS_SECRET: "settings-secret-of-the-tests-0001",
          ERASURE_SECRET: "erasure-secret-of-the-tests-00001",
          ANALYTICS_EXPORT_SECRET_PREVIOUS: "export-secret-before-that",
          // What the environment of `npm test` and `npm run soak` says to the tests inside workerd.
          PROOF_SEED: process.env.PROOF_SEED ?? "",
          SOAK_OPERATIONS: process.env.SOAK_OPERATIONS ?? "",
          SWAP_DATABASES: process.env.SWAP_DATABASES ?? "",
        },
      },
    })),
  ],
  test: {
    name: "worker",
    // Every test makes its own applications and users, so the files need no workerd each; a start of one takes a second.
    isolate: false,
    restoreMocks: true,
    include: ["test/worker/**/*.test.ts", "test/cross/**/*.test.ts"],
    setupFiles: ["test/support/migrate.ts"],
    // A test that compares all rows of a user shows them whole.
    chaiConfig: { truncateThreshold: 20_000 },
    // What looks at a whole database looks at all that the soak wrote.
    testTimeout: isSoak ? 600_000 : 120_000,
    hookTimeout: isSoak ? 600_000 : 120_000,
  },
};

const e2e = {
  define,
  // An example imports it by name. `npm pack` builds it, which takes seconds.
  resolve: { alias: { "purser-ai-sdk": new URL("clients/ai-sdk/src/index.ts", import.meta.url).pathname } },
  test: {
    name: "e2e",
    include: ["test/e2e/**/*.test.ts"],
    globalSetup: ["test/e2e/support/build.ts"],
    // Each file serves what it tests by itself. What it imports, wrangler above all, takes a second and more of each process.
    isolate: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
};

export default defineConfig({
  test: {
    projects: [unit, worker, e2e],
    sequence: { sequencer: LongestFirst },
    // More than the cores of the smallest machine: tests of kills, receivers and browsers wait more than they compute.
    maxWorkers: 5,
    // A timer of undici 7.30.1, which Miniflare uses, may fire after the end of its connection. No test has failed by it.
    onUnhandledError: ({ message, stack = "" }) => !(message.includes("'deref'") && stack.includes("onParserTimeout")),
    // Tests plant faults, which Purser logs.
    onConsoleLog: (log) => !log.startsWith('{"level":"'),
  },
});
