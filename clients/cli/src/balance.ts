import { type Decimal, decimal } from "./decimal.ts";
import type { Row } from "./rows.ts";

export interface PackOfFile {
  readonly packId: string;
  readonly packName: string;
  readonly unit: string | null;
  readonly hasItems: boolean;
}

/** A balance to grant. */
export interface Balance {
  readonly line: number;
  readonly userId: string;
  readonly pack: PackOfFile;
  readonly remaining: Decimal;
  readonly expiresAt: string | null;
  readonly externalRef: string;
}

const DIGITS_MAX = 15;
const decimalsOf = (unit: string | null) => (unit === "cents" ? 6 : 3);
const folded = (name: string): string => name.normalize("NFKC").toLowerCase();

function packOf({ pack, unit }: Row["fields"], packs: readonly PackOfFile[]): PackOfFile | string {
  if (pack !== undefined && pack !== "") {
    const found = packs.find(({ packId, packName }) => packId === pack || folded(packName) === folded(pack));
    if (found === undefined) return "There is no pack of this name.";
    if (found.hasItems) return "The pack has items with amounts of their own. Name one without items.";
    if (unit !== undefined && unit !== "" && unit !== found.unit) return `The pack is in ${found.unit}.`;
    return found;
  }
  if (unit === undefined || unit === "") return "It has neither a pack nor a unit.";
  const [first, second] = packs.filter((one) => !one.hasItems && one.unit === unit);
  if (first === undefined) return `There is no pack without items in ${unit}. Create one.`;
  return second === undefined ? first : `Several packs are in ${unit}. Name one in the column pack.`;
}

/** Returns the balance of a line, or the reason why it is rejected. */
export function balanceOf({ line, fields, problem }: Row, packs: readonly PackOfFile[]): Balance | string {
  if (problem !== undefined) return problem;
  const { userId = "", remaining = "", expiresAt = "", ref = "" } = fields;
  if (userId === "") return "It has no userId.";
  if (ref === "") return "It has no ref, so that a second run would grant it again.";
  const pack = packOf(fields, packs);
  if (typeof pack === "string") return pack;
  const amount = decimal(remaining);
  if (amount === null) return "remaining is not a number such as 12.5.";
  if (amount.digits < 0n) return "remaining is negative.";
  if (amount.digits === 0n) return "remaining is 0, so there is nothing to grant.";
  const isExact = amount.scale <= decimalsOf(pack.unit) && amount.digits.toString().length <= DIGITS_MAX;
  if (!isExact) return `remaining has more than ${decimalsOf(pack.unit)} decimals or ${DIGITS_MAX} digits.`;
  if (expiresAt !== "" && Number.isNaN(Date.parse(expiresAt)))
    return "expiresAt is no time such as 2027-01-31T00:00:00Z.";
  return { line, userId, pack, remaining: amount, expiresAt: expiresAt || null, externalRef: `import:${ref}` };
}
