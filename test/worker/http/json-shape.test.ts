import { expect, it } from "vitest";
import { expectError } from "../../support/rejections.ts";
import { Clock, makeApp, makeClient } from "../../support/world.ts";

// `npm run bench:worst` measures the CPU and memory of such bodies.

const MIB = 1024 * 1024;
const PATHS = ["usage/events", "credits/grant", "credits/plan", "consent", "export-person"];
const repeatTo = (part: string, bytes: number) => part.repeat(Math.floor(bytes / part.length));

it.each([
  ["of 300,000 objects", `[${repeatTo("{},", MIB - 10)}{}]`],
  ["of 300,000 lists in an object", `{"a":[${repeatTo("[],", MIB - 20)}[]]}`],
  ["of 500,000 levels", repeatTo("[", MIB / 2) + repeatTo("]", MIB / 2)],
  [
    "of 500,000 levels around a long number",
    `${repeatTo("[", MIB / 2 - 40)}${"1".repeat(30)}${repeatTo("]", MIB / 2 - 40)}`,
  ],
])("a JSON body that is expensive to parse %s is refused on every route, after the key", async (_what, body) => {
  const call = makeClient(new Clock());
  const { keys } = await makeApp();
  for (const path of PATHS) {
    expectError(await call("POST", `/api/v1/${path}`, { key: keys.sk_live, body }), "invalid_request", "body");
    const unknown = `${keys.sk_live.slice(0, 8)}${"0".repeat(keys.sk_live.length - 8)}`;
    expectError(await call("POST", `/api/v1/${path}`, { key: unknown, body }), "invalid_key");
  }
});

it("a JSON body that is expensive to parse is accepted with 50,000 objects and lists, and rejected with one more", async () => {
  const call = makeClient(new Clock());
  const { keys } = await makeApp();
  const event = (count: number) =>
    `{"eventId":"e${count}","userId":"u","event":"e","onShortage":"partial","properties":{"a":[${Array(count).fill("[1]").join()}]}}`;
  const sent = (count: number) => call("POST", "/api/v1/usage/events", { key: keys.sk_live, body: event(count) });
  // The body, its properties and the outer list are three more.
  expect((await sent(49_997)).status).toBe(200);
  expectError(await sent(49_998), "invalid_request", "body");
});

const gzip = async (text: string) => {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

it.each([
  ["3 million objects", () => `[${repeatTo("{},", 10 * MIB - 10)}{}]`],
  ["5 million levels", () => repeatTo("[", 5 * MIB) + repeatTo("]", 5 * MIB)],
  ["a number of 3 MiB", () => `[{"n":${"1".repeat(3 * MIB)}},${repeatTo("{},", 6 * MIB)}{}]`],
])("an expensive body of PostHog's clients is refused for its key: %s", async (_what, make) => {
  const call = makeClient(new Clock());
  const body = await gzip(make());
  expectError(await call("POST", "/batch/", { body }), "invalid_key");
});

it.each([
  ["5 million levels, behind a key,", (key: string) => `{"api_key":"${key}","x":${"[".repeat(5e6)}`, 413],
  ["100,000 values", (key: string) => valuesIn(key, 100_000), 200],
  ["100,001 values", (key: string) => valuesIn(key, 100_001), 413],
  ["100,000 brackets in strings", (key: string) => valuesIn(key, 100, `"${"[".repeat(100_000)}"`), 200],
  ["25,000 values, one of many digits", (key: string) => valuesIn(key, 25_000, "1234567890.1234567"), 200],
  ["25,001 values, one of many digits", (key: string) => valuesIn(key, 25_001, "1234567890.1234567"), 413],
  ["a million escapes", (key: string) => valuesIn(key, 100, `"${"\\n".repeat(1e6)}"`), 200],
  ["a million and one escapes", (key: string) => valuesIn(key, 100, `"${"\\n".repeat(1e6 + 1)}"`), 413],
])("an expensive body of PostHog's clients with %s is answered by the limits of L1", async (_what, make, status) => {
  const call = makeClient(new Clock());
  const { keys } = await makeApp();
  expect((await call("POST", "/batch/", { body: await gzip(make(keys.pk_live)) })).status).toBe(status);
});

/** A batch with so many members and elements in all. One is `value`. */
const valuesIn = (key: string, count: number, value = "1") => {
  // The batch has four more: the key, the list, the event and its names.
  const event = `{"event":"e","distinct_id":"u"}`;
  const around = `{"api_key":"${key}","batch":[${event}],"other":[${value}`;
  return `${around}${",1".repeat(count - 7)}]}`;
};
