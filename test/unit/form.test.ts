import { expect, it } from "vitest";
import { numberField } from "../../src/dashboard/form.ts";
import { PurserError } from "../../src/errors.ts";

const read = (text: string) => numberField({ amount: text }, "amount", "items[0].amount");

it("a number that a person typed is read with thousands separators, spaces and any minus sign", () => {
  const cases: readonly (readonly [string, number | undefined])[] = [
    ["1,000", 1_000],
    ["1 000 000", 1_000_000],
    ["1\u00a0000", 1_000],
    ["1\u202f000.5", 1_000.5],
    ["1'000", 1_000],
    ["12,345,678.25", 12_345_678.25],
    ["\u22125", -5],
    ["\u2212 1,000", -1_000],
    ["–3", -3],
    [" 7 ", 7],
    ["+7", 7],
    [".5", 0.5],
    ["1e3", 1_000],
    ["", undefined],
    ["  ", undefined],
  ];
  for (const [text, value] of cases) expect(read(text), text).toBe(value);
});

it("a number that a person typed is rejected under its argument's name when it is ambiguous or not a number", () => {
  for (const text of [
    "100,5",
    "1,00",
    "1,0000",
    "1.000,5",
    "1,000 000",
    "1.2.3",
    "ten",
    "$5",
    "1,000,",
    ".",
    "-",
    "0x10",
  ]) {
    let rejection: unknown;
    try {
      read(text);
    } catch (error) {
      rejection = error;
    }
    expect(rejection, text).toBeInstanceOf(PurserError);
    expect(rejection, text).toMatchObject({ code: "invalid_request", param: "items[0].amount" });
  }
});
