/** The fields that the element reads of a balance from `GET /api/v1/credits`. */
export interface Balance {
  readonly unit: string;
  readonly remaining: number;
  readonly initial: number;
  readonly expiresAt: string | null;
}

export interface UnitTotal {
  readonly remaining: number;
  readonly initial: number;
}

/** Returns sums of decimals by unit, in the order of the list. They are exact to a millionth, the smallest step of any unit. */
export function totalsByUnit(credits: readonly Balance[]): Map<string, UnitTotal> {
  const exact = (sum: number) => Math.round(sum * 1e6) / 1e6;
  const totals = new Map<string, UnitTotal>();
  for (const { unit, remaining, initial } of credits) {
    const before = totals.get(unit) ?? { remaining: 0, initial: 0 };
    totals.set(unit, { remaining: exact(before.remaining + remaining), initial: exact(before.initial + initial) });
  }
  return totals;
}

/** Returns the amounts that expire first, and when; null when nothing expires. */
export function nextToExpire(credits: readonly Balance[]): { at: Date; totals: Map<string, UnitTotal> } | null {
  const times = credits.flatMap(({ expiresAt }) => (expiresAt === null ? [] : [expiresAt])).sort();
  const [first] = times;
  if (first === undefined) return null;
  return { at: new Date(first), totals: totalsByUnit(credits.filter(({ expiresAt }) => expiresAt === first)) };
}
