import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { APPS } from "../../support/paths.ts";
import { bound, Clock, startIsolate } from "../../support/world.ts";

/** A rate limiter that all isolates share: ten requests a key, as in wrangler.toml. */
function sharedLimiter(): RateLimit {
  const counts = new Map<string, number>();
  return {
    limit: async ({ key }) => {
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      return { success: count <= 10 };
    },
  };
}

/** Makes isolates of one deployment. Each returns the status of a request with a token. */
function deployment(bindings: Partial<Env> = {}) {
  const clock = new Clock();
  const shared = bound({ ADMIN_TRIES: sharedLimiter(), ...bindings });
  const isolate = () => {
    const { request } = startIsolate(clock);
    const status = async (path: string, init: RequestInit, address: string) => {
      const headers = new Headers(init.headers);
      headers.set("cf-connecting-ip", address);
      const answer = await request(`http://purser.test${path}`, { ...init, headers }, shared);
      const wait = answer.headers.get("retry-after");
      expect(wait === null).toBe(answer.status !== 429);
      // The API and the sign-in page also explain it in words.
      if (wait !== null) expect(await answer.clone().text()).toMatch(new RegExp(`Try again in ${wait} seconds?\\.`));
      return answer.status;
    };
    return {
      api: (token: string, address: string) => status(APPS, { headers: { authorization: `Bearer ${token}` } }, address),
      signIn: (token: string, address: string) =>
        status("/admin/sign-in", { method: "POST", body: new URLSearchParams({ token, name: "Ana" }) }, address),
    };
  };
  return { clock, isolate };
}

it("wrong admin tokens are limited to ten a minute from one address, on the API and the dashboard together, and then the right token is rejected too", async () => {
  const { clock, isolate } = deployment();
  const { api, signIn } = isolate();
  for (let tries = 0; tries < 5; tries++) {
    expect(await api(`wrong ${tries}`.replace(" ", "-"), "192.0.2.1")).toBe(401);
    expect(await signIn(`wrong ${tries}`, "192.0.2.1")).toBe(401);
  }
  for (const ask of [api, signIn]) {
    expect(await ask("wrong", "192.0.2.1")).toBe(429);
    expect(await ask(env.ADMIN_TOKEN, "192.0.2.1")).toBe(429);
  }
  expect(await api(env.ADMIN_TOKEN, "192.0.2.2")).toBe(200);
  clock.advance(60_000);
  expect(await api(env.ADMIN_TOKEN, "192.0.2.1")).toBe(200);
});

it("wrong admin tokens are counted across all isolates if the platform's rate limiter is bound", async () => {
  const { isolate } = deployment();
  const statuses: number[] = [];
  for (let tries = 0; tries < 30; tries++) statuses.push(await isolate().api("wrong", "192.0.2.3"));
  expect(statuses.filter((status) => status === 401)).toHaveLength(10);
  expect(statuses.slice(10)).toEqual(Array(20).fill(429));
});

it("wrong admin tokens are counted in each isolate if the platform's rate limiter is not bound", async () => {
  const { isolate } = deployment({ ADMIN_TRIES: undefined as unknown as RateLimit });
  const { api } = isolate();
  for (let tries = 0; tries < 10; tries++) expect(await api("wrong", "192.0.2.4")).toBe(401);
  expect(await api("wrong", "192.0.2.4")).toBe(429);
});

it("wrong admin tokens are limited to ten even if a hundred arrive concurrently, while the right token always passes", async () => {
  const { isolate } = deployment({ ADMIN_TRIES: undefined as unknown as RateLimit });
  const { api } = isolate();
  const guesses = await Promise.all(Array.from({ length: 100 }, (_, n) => api(`wrong-${n}`, "192.0.2.6")));
  expect(guesses.filter((status) => status === 401)).toHaveLength(10);
  expect(guesses.filter((status) => status === 429)).toHaveLength(90);
  const { api: fresh } = isolate();
  const owner = await Promise.all(Array.from({ length: 100 }, () => fresh(env.ADMIN_TOKEN, "192.0.2.6")));
  expect(new Set(owner)).toEqual(new Set([200]));
});

it("wrong admin tokens are the only ones counted: requests with the right token are not limited", async () => {
  const { isolate } = deployment();
  const { api } = isolate();
  for (let tries = 0; tries < 40; tries++) expect(await api(env.ADMIN_TOKEN, "192.0.2.5")).toBe(200);
  expect(await api("wrong", "192.0.2.5")).toBe(401);
});

it("wrong admin tokens count as from one address if callers can choose the address header", async () => {
  const { isolate } = deployment({ BEHIND_CLOUDFLARE: "false" });
  const { api, signIn } = isolate();
  for (let tries = 0; tries < 10; tries++) expect(await api("wrong", `192.0.2.${tries}`)).toBe(401);
  expect(await api("wrong", "203.0.113.1")).toBe(429);
  expect(await signIn("wrong", "203.0.113.2")).toBe(429);
});

it("wrong admin tokens count together for all addresses of one IPv6 /64 network", async () => {
  const { isolate } = deployment();
  const { api } = isolate();
  for (let tries = 0; tries < 10; tries++) expect(await api("wrong", `2001:db8:1:2::${tries}`)).toBe(401);
  expect(await api("wrong", "2001:0db8:0001:0002:aaaa::1")).toBe(429);
  expect(await api("wrong", "2001:db8:1:3::1")).toBe(401);
});
