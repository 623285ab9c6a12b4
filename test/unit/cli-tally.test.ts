import { expect, it } from "vitest";
import { type Outcome, Tally } from "../../clients/cli/src/tally.ts";

const OUTCOMES: readonly Outcome[] = ["granted", "repeated", "refused"];

it("counts, at every moment, each line up to its place once and no later one, in whatever order lines end", () => {
  const tally = new Tally({ line: 0, granted: 0, repeated: 0, refused: 0 });
  // Records may span lines.
  const lines = Array.from({ length: 300 }, (_, at) => at * 3 + 2);
  const pending: number[] = [];
  const outcomeOf = (line: number): Outcome => OUTCOMES[line % 3 === 2 ? (line * 7) % 3 : 0] ?? "granted";
  while (lines.length + pending.length > 0) {
    if (lines.length > 0 && (pending.length === 0 || (pending.length < 16 && Math.random() < 0.6))) {
      const [line = 0] = lines.splice(0, 1);
      tally.begin(line);
      pending.push(line);
    } else {
      const [line = 0] = pending.splice(Math.floor(Math.random() * pending.length), 1);
      tally.end(line, outcomeOf(line));
    }
    const { line, ...counts } = tally.done;
    const until = Array.from({ length: 300 }, (_, at) => at * 3 + 2).filter((each) => each <= line);
    const expected = OUTCOMES.map((outcome) => until.filter((each) => outcomeOf(each) === outcome).length);
    expect([counts.granted, counts.repeated, counts.refused]).toEqual(expected);
    expect(pending.every((each) => each > line)).toBe(true);
  }
  expect(tally.done.line).toBe(299 * 3 + 2);
});
