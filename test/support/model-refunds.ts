import { type Answer, again, type Balance, type createModel, type Fields, left, reject } from "./model.ts";
import { fromMinor, toMinor } from "./model-amounts.ts";

export interface RefundRequest {
  readonly userId: string;
  readonly ref: string;
  readonly refundRef: string;
  readonly pack?: string;
  readonly share?: { readonly part: number; readonly of: number };
  readonly reason?: string;
}

/** A sum of shares, as an unreduced fraction. */
type Sum = readonly [parts: bigint, of: bigint];
interface Refund {
  readonly refundRef: string;
  readonly request: Fields;
  readonly body: object;
  readonly covered: readonly Balance[];
  readonly share: RefundRequest["share"];
}

const add = ([parts, of]: Sum, share: RefundRequest["share"]): Sum =>
  share === undefined ? [1n, 1n] : [parts * BigInt(share.of) + BigInt(share.part) * of, of * BigInt(share.of)];

/** The answer to a refund of a user. */
export interface RefundResult {
  readonly userId: string;
  readonly body: object;
}

/** A model of refunds (C21). It adds each refund to `results`. */
export function createRefunds(model: ReturnType<typeof createModel>, results: RefundResult[] = []) {
  const all = new Map<string, Refund[]>();
  const refund = (input: RefundRequest): Answer => {
    const { userId, ref, refundRef, pack, share, reason } = input;
    const key = JSON.stringify([userId, ref]);
    const request = { packId: pack, share, reason };
    const earlier = all.get(key) ?? [];
    model.expire(userId);
    const stored = earlier.find((refund) => refund.refundRef === refundRef);
    if (stored) return again(stored, request);
    const issued = model.balances.filter((b) => b.userId === userId && b.ref === ref);
    const byId = issued.filter((b) => b.packId === pack);
    const byName = issued.filter((b) => b.packName.toLowerCase() === pack?.toLowerCase());
    const covered = pack === undefined ? issued : byId.length > 0 ? byId : byName;
    if (covered.length === 0) return reject(404, "credit_balance_not_found");
    const sums = covered.map((b) => {
      const before = earlier
        .filter((refund) => refund.covered.includes(b))
        .reduce<Sum>((sum, refund) => add(sum, refund.share), [0n, 1n]);
      return { b, before, after: add(before, share) };
    });
    if (earlier.length === 100 || sums.some(({ after: [parts, of] }) => parts > of))
      return reject(400, "invalid_request");
    if (!share && sums.every(({ before: [parts, of] }) => parts === of)) return reject(400, "invalid_request");
    const balances = sums.map(({ b, before, after }) => {
      const whole = toMinor(b.unit, b.initial);
      const due = (whole * after[0]) / after[1] - (whole * before[0]) / before[1];
      const isAll = after[0] === after[1];
      const taken = isAll || b.remaining < due ? b.remaining : due;
      const why = { cause: "refund", note: reason ?? null };
      model.post(b, -taken, "admin_adjust", why);
      if (isAll && !b.revoked) b.revokedWhy = why;
      b.revoked ||= isAll;
      if (b.revoked) b.owed = [];
      else model.owe(b, due - taken, why);
      return {
        ...{ balanceId: b.id, packItemId: b.packItemId, unit: b.unit, taken: fromMinor(b.unit, taken) },
        ...{ short: fromMinor(b.unit, due > taken ? due - taken : 0n), remaining: left(b) },
      };
    });
    const body = { refundRef, externalRef: ref, balances };
    all.set(key, [...earlier, { refundRef, request, body, covered, share }]);
    results.push({ userId, body });
    return { status: 200, body };
  };
  /** Removes the references of an erased user (E2). */
  const forget = (userId: string): void => {
    for (const key of [...all.keys()]) if (JSON.parse(key)[0] === userId) all.delete(key);
    results.splice(0, results.length, ...results.filter((result) => result.userId !== userId));
  };
  return Object.assign(refund, { forget });
}
