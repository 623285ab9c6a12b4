import { wrappedD1 } from "./wrapped-d1.ts";

/**
 * A D1 around the real one that does something before each trip, counted from 1, of so many statements: what others do
 * meanwhile. The values of each statement are shown to `onBind` first.
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
