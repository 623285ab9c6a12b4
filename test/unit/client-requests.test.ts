import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { Purser, PurserError } from "../../clients/typescript/src/index.ts";

const errorOf = (call: Promise<unknown>): Promise<Error> =>
  call.then(
    () => Promise.reject(new Error("This should have failed.")),
    (error) => error,
  );

/** Starts a server that answers every request alike. Returns its address, and the requests that it got. */
async function serve(status: number, headers: Readonly<Record<string, string>>) {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`);
    response.writeHead(status, headers).end('{"credits":[]}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
  });
  return { seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

it("the client follows no redirect, so that no other host gets a user's token or personal data", async () => {
  const other = await serve(200, { "content-type": "application/json" });
  const { url } = await serve(307, { location: `${other.url}/elsewhere` });
  const page = new Purser({ url, key: "pk_test_x", userToken: "a.b.c" });
  const backend = new Purser({ url, key: "sk_test_x" });
  for (const call of [page.listBalances({ userId: "u" }), backend.grantCredits({ userId: "u", packId: "p" })]) {
    const error = await errorOf(call);
    expect(error).toBeInstanceOf(PurserError);
    expect(error).toMatchObject({ code: "unknown_answer", status: 307 });
  }
  expect(other.seen).toEqual([]);
});

it("the client rejects a key or a token that no header can carry, and its error does not show it", async () => {
  const { seen, url } = await serve(200, { "content-type": "application/json" });
  expect(() => new Purser({ url, key: "sk_test_hush\nPORT=80" })).toThrow(
    new TypeError("Purser needs a key of one line. Check how its variable is set."),
  );
  const page = new Purser({ url, key: "pk_test_x", userToken: "hush\nx" });
  for (const call of [page.listBalances({ userId: "u" }), page.listBalances({ userId: "u" }, { userToken: "hush…" })]) {
    expect(await errorOf(call)).toEqual(
      new TypeError("listBalances: userToken is no JWT: it has characters that no header carries."),
    );
  }
  expect(seen).toEqual([]);
});

it("the client sends nothing with a publishable key while the sign-in has no token", async () => {
  const { seen, url } = await serve(200, { "content-type": "application/json" });
  for (const none of [null, undefined]) {
    const page = new Purser({ url, key: "pk_test_x", userToken: async () => none });
    expect(await errorOf(page.listBalances({ userId: "u" }))).toEqual(
      new TypeError("listBalances with a publishable key needs userToken: the user's JWT from your own sign-in."),
    );
  }
  expect(seen).toEqual([]);
});
