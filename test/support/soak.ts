import { env } from "cloudflare:workers";

/** `npm run soak` sets the number of operations. It is empty in the suite, whose runs are short. */
const OPERATIONS = Number(env.SOAK_OPERATIONS);

export const isSoak = OPERATIONS > 0;

/** The seed of random tests that differ in every run, unless `PROOF_SEED` is set. */
export const RANDOM_SEED = Number(env.PROOF_SEED) || (Date.now() % 1_000_000) + 1;
/** The seed of random tests that are the same in every run, unless `PROOF_SEED` is set. */
export const FIXED_SEED = Number(env.PROOF_SEED) || 1;

/** The number of repetitions: `inSuite` in the suite, `ofThousand` for each thousand of `SOAK_OPERATIONS` in the soak. */
export const soakCount = (inSuite: number, ofThousand: number): number =>
  isSoak ? Math.max(1, Math.round((OPERATIONS * ofThousand) / 1_000)) : inSuite;

/**
 * The timeout of `count` pieces of work: a minute, and `eachMs` for each piece, which is some twenty times its duration on an idle
 * machine. It ends a run that hangs, not one that is slow.
 */
export const timeoutOf = (count: number, eachMs: number): number => 60_000 + count * eachMs;

/** Counts the pieces of one part of the soak, and prints the progress after each tenth. scripts/soak.mjs collects the lines. */
export function soakPart(part: string, total: number, pieces: string, seed?: number): (more?: number) => void {
  const startMs = Date.now();
  let done = 0;
  let printed = 0;
  return (more = 1) => {
    done += more;
    if (!isSoak || (done < total && done - printed < total / 10)) return;
    printed = done;
    const howFar = done < total ? `${done.toLocaleString("en")} of ` : "";
    const seconds = Math.round((Date.now() - startMs) / 1_000);
    const from = seed === undefined ? "" : `, PROOF_SEED=${seed}`;
    console.info(`soak: ${part}: ${howFar}${total.toLocaleString("en")} ${pieces}, ${seconds} s${from}`);
  };
}
