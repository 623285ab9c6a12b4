import { DAY_MS, iso } from "../lib/time.ts";
import type { Figure } from "./figures/read.ts";

/** Figures of some days, and of as many days before them. */
export interface TwoSpans {
  readonly now: readonly Figure[];
  readonly before: readonly Figure[];
}

/** Cuts figures of twice as many days in two. */
export const twoSpans = (figures: readonly Figure[], days: number): TwoSpans => ({
  now: figures.map((figure) => ({ ...figure, days: figure.days.slice(days) })),
  before: figures.map((figure) => ({ ...figure, days: figure.days.slice(0, days) })),
});

export const sumOf = ({ days }: { readonly days: readonly { readonly value: number }[] }): number =>
  days.reduce((sum, day) => sum + day.value, 0);

/** A unit's days on the dates of the overview. Zeros where nothing was counted. */
export function inSpan(figures: readonly Figure[], unit: string, span: { past: number; days: number }) {
  const figure = figures.find((each) => each.unit === unit);
  return Array.from({ length: span.days }, (_, index) => ({
    date: iso(span.past + index * DAY_MS).slice(0, 10),
    value: figure?.days[index]?.value ?? 0,
  }));
}

/** A unit's sum. */
export const sumOfUnit = (figures: readonly Figure[], unit: string): number => {
  const figure = figures.find((each) => each.unit === unit);
  return figure === undefined ? 0 : sumOf(figure);
};
