import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { fromSteps } from "../../../src/books/amounts/amount.ts";
import { amountSql, isoSql } from "../../../src/exports/lists.ts";
import { iso } from "../../../src/lib/time.ts";
import { steps } from "../../support/steps.ts";

const FIRST_MS = Date.parse("0000-01-01T00:00:00.000Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

async function written(expression: string, values: readonly number[]): Promise<string[]> {
  const { results } = await env.DB.prepare(
    `SELECT ${expression} AS text FROM (SELECT value AS v FROM json_each(?)) AS t`,
  )
    .bind(JSON.stringify(values))
    .all<{ text: string }>();
  return results.map((row) => row.text);
}

it("writes every millisecond as JavaScript does, before 1970 too, to either end of the years of four digits", async () => {
  const everyMillisecond = Array.from({ length: 3_000 }, (_, index) => index - 1_500);
  const starts = [FIRST_MS, -62_135_596_800_000, -1_500, 0, 1_762_161_300_000, 4_102_444_799_000, LAST_MS - 2_000];
  const spread = Array.from({ length: 20_000 }, (_, index) =>
    Math.round(FIRST_MS + ((LAST_MS - FIRST_MS) / 19_999) * index),
  );
  const values = [
    ...starts.flatMap((start) => Array.from({ length: 2_001 }, (_, index) => start + index)),
    ...everyMillisecond,
    ...spread,
  ].filter((ms) => ms >= FIRST_MS && ms <= LAST_MS);
  const expected = values.map((ms) => JSON.stringify(iso(ms)));
  expect(await written(isoSql("v"), values)).toEqual(expected);
});

it("writes amounts as decimals that read as the very number that every other answer shows", async () => {
  const small = [0, 1, -1, 10, -10, 100, 999, 1_000, 1_001, 12_340, -12_345, 1_000_000, 1_000_001, 123_456_789];
  const large = [8_796_093_022_208_000, -8_796_093_022_207_999, 8_589_934_592_000_000, 8_589_934_591_999_999];
  const random = Array.from({ length: 5_000 }, (_, index) => (index * 1_759_218_604_441.6) | 0 || index);
  const values = [...small, ...large, ...random, ...random.map((value) => value * 2_000_003)];
  for (const [unit, decimals] of [
    ["tokens", 3],
    ["cents", 6],
  ] as const) {
    const texts = await written(amountSql("v", decimals), values);
    expect(texts.map((text) => JSON.parse(text))).toEqual(values.map((value) => fromSteps(unit, steps(value))));
    expect(texts.filter((text) => /\.\d*0$|\.$/.test(text))).toEqual([]);
  }
});
