import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, it } from "vitest";
import { ADMIN_TOKEN, type Server, sharedServer } from "./support/server.ts";

const run = promisify(execFile);
const CLIENT = join(import.meta.dirname, "../../tools/generated-client");

let server: Server;
beforeAll(async () => {
  server = await sharedServer();
});

// `npm run check` compiles the story against the generated types.
it("a client that is generated from openapi.json makes every call of the story", async () => {
  const env = { ...process.env, ADMIN_TOKEN };
  const { stdout } = await run(process.execPath, [join(CLIENT, "story.ts"), server.url], { env });
  expect(JSON.parse(stdout)).toEqual({
    version: 1,
    isSameBalance: true,
    spent: {
      planned: [100],
      debits: [[100, 300]],
      isReplayed: true,
      uncovered: 700,
      list: [250, "insufficient_credits"],
    },
    reserved: { held: [100], paid: [25], late: "reservation_closed", total: 175 },
    browsed: {
      balances: [{ remaining: 225, status: "active", event: "chat.*" }],
      expired: "expired",
      decision: "granted",
    },
    reasons: ["event_committed", "reservation_released", "reservation_held", "event_committed"],
    revoked: 0,
    exported: { plan: "pro", metering: ["e1", "e3", "e5"], consents: 1 },
  });
});
