import { wrappedD1 } from "./wrapped-d1.ts";

/**
 * A D1 around the real one that calls a function before each trip, with the trip's number from 1 and its number of
 * statements. The function may send other requests. `onBind` sees the values of each statement first.
 */
export function hookedD1(
  d1: D1Database,
  beforeTrip: (trip: number, statements: number) => Promise<void>,
  onBind: (values: readonly unknown[]) => void = () => {},
): D1Database {
  let trips = 0;
  return wrappedD1(d1, async (send, statements) => {
    for (const { values } of statements) onBind(values);
    await beforeTrip(++trips, statements.length);
    return send(statements);
  });
}
