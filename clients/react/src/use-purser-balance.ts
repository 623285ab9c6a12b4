import { Purser, type Schemas } from "purser-client";
import { useCallback, useEffect, useRef, useState } from "react";

/** Returns the user's own token from your sign-in; null or undefined while nobody is signed in. */
export type GetToken = () => string | null | undefined | Promise<string | null | undefined>;

export interface PurserBalanceOptions {
  /** The address of Purser, such as `https://purser.example.com`. */
  readonly url: string;
  /** A publishable key, `pk_…`. */
  readonly publishableKey: string;
  /** Your own id of the user for whom `getToken` returns a token. */
  readonly userId: string;
  readonly getToken: GetToken;
  /** Lists only the balances that pay for this event. */
  readonly event?: string;
}

export interface PurserBalanceState {
  readonly status: "loading" | "ok" | "error";
  /** The active balances, in the order in which they pay. Empty while they are read. */
  readonly credits: readonly Schemas["CreditBalance"][];
  /** The operator's own names of units, such as "credit" and "credits" for `count`; empty while they are read. */
  readonly unitNames: Schemas["UnitNames"];
  /** The error of the last reading: a `PurserError`, or the error that `getToken` threw. */
  readonly error: unknown;
  /** Reads again, for example after a purchase. */
  readonly refresh: () => void;
}

const NOTHING = { credits: [], unitNames: {}, error: null };

type Read = Omit<PurserBalanceState, "refresh"> & { readonly of: string };

/** Returns a user's credits. It reads them in the browser once, and again on `refresh` or when the options change. */
export function usePurserBalance(options: PurserBalanceOptions): PurserBalanceState {
  const { url, publishableKey, userId, event } = options;
  // Another user's credits must not stay visible while this user's are read.
  const of = JSON.stringify([url, publishableKey, userId, event]);
  const [read, setRead] = useState<Read>({ of, status: "loading", ...NOTHING });
  const [round, setRound] = useState(0);
  const getToken = useRef(options.getToken);
  useEffect(() => {
    getToken.current = options.getToken;
  });
  useEffect(() => {
    const request = new AbortController();
    const readNow = async () => {
      // React's strict mode ends the first effect at once. This wait ensures that the first effect sends nothing.
      await null;
      if (request.signal.aborted) return;
      try {
        const settings = { url, key: publishableKey };
        const purser = new Purser({ ...settings, userToken: () => getToken.current() });
        const input = { userId, ...(event === undefined ? {} : { event }) };
        const [{ credits }, { names }] = await Promise.all([
          purser.listBalances(input, { signal: request.signal }),
          // The names need no user's token. Without them, a page shows its own words.
          new Purser(settings).getUnitNames({}, { signal: request.signal }).catch(() => ({ names: {} })),
        ]);
        setRead({ of, status: "ok", credits, unitNames: names, error: null });
      } catch (error) {
        if (!request.signal.aborted) setRead({ of, status: "error", ...NOTHING, error });
      }
    };
    void readNow();
    return () => request.abort();
  }, [of, round]);
  const refresh = useCallback(() => setRound((before) => before + 1), []);
  const { status, credits, unitNames, error } = read.of === of ? read : { status: "loading" as const, ...NOTHING };
  return { status, credits, unitNames, error, refresh };
}
