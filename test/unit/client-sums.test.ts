import { expect, it } from "vitest";
import { Purser } from "../../clients/typescript/src/index.ts";

const answering = (text: string) =>
  new Purser({ url: "https://purser.example", key: "sk_test_x", fetch: async () => new Response(text) });

it("a sum that a double would round reaches the client's caller as a string with all its digits", async () => {
  const amounts = [
    "9007199254740993",
    "-123456789012345678.9",
    "9007199254740.993",
    "8589934591.123456",
    "0.1",
    "1000000000000000000000",
  ];
  const totals = amounts.map(
    (amount) => `{"event":"a \\"9007199254740993\\", ${amount}","unit":"tokens","amount":${amount}}`,
  );
  const answer = await answering(`{"totals":[${totals.join()}]}`).getUsageTotals({ userId: "u" });
  expect(answer.totals.map((total) => "amount" in total && total.amount)).toEqual([
    ...["9007199254740993", "-123456789012345678.9", "9007199254740.993"],
    ...[8589934591.123456, 0.1, 1e21],
  ]);
  expect(answer.totals[0]?.event).toBe('a "9007199254740993", 9007199254740993');
});
