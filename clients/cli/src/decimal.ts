/** Exact decimals: no amount passes through a double on its way into a file. */
export interface Decimal {
  /** The value is `digits / 10^scale`. */
  readonly digits: bigint;
  readonly scale: number;
}

/** Returns the decimal that a text says, such as `2.5e-06`. Null for other texts. */
export function decimal(text: string): Decimal | null {
  const found = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text.trim());
  if (found === null) return null;
  const [, sign, whole = "", fraction = "", exponent = "0"] = found;
  const scale = fraction.length - Number(exponent);
  const digits = BigInt(`${sign}${whole}${fraction}`);
  return scale < 0 ? { digits: digits * 10n ** BigInt(-scale), scale: 0 } : { digits, scale };
}

export const times = (a: Decimal, b: Decimal): Decimal => ({ digits: a.digits * b.digits, scale: a.scale + b.scale });

export const add = (a: Decimal, b: Decimal): Decimal => {
  const scale = Math.max(a.scale, b.scale);
  const at = ({ digits, scale: own }: Decimal) => digits * 10n ** BigInt(scale - own);
  return { digits: at(a) + at(b), scale };
};

/** Rounds a decimal of 0 or more up, to some decimals and at most 15 digits, which a number of JSON keeps. */
export function roundUp({ digits, scale }: Decimal, decimalsMax: number): Decimal {
  const length = digits.toString().length;
  const cut = Math.max(scale - decimalsMax, length - 15, 0);
  const divisor = 10n ** BigInt(cut);
  const kept = (digits + divisor - 1n) / divisor;
  return cut > scale ? { digits: kept * 10n ** BigInt(cut - scale), scale: 0 } : { digits: kept, scale: scale - cut };
}

/** Returns the shortest text of a decimal, without an exponent. */
export function textOf({ digits, scale }: Decimal): string {
  const sign = digits < 0n ? "-" : "";
  const text = (digits < 0n ? -digits : digits).toString().padStart(scale + 1, "0");
  const [whole, fraction] = [text.slice(0, text.length - scale), text.slice(text.length - scale).replace(/0+$/, "")];
  return fraction === "" ? `${sign}${whole}` : `${sign}${whole}.${fraction}`;
}

const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Parses JSON with every number as its text. */
export const parseWithTexts = (json: string): unknown =>
  JSON.parse(
    json.replace(/^\uFEFF/, "").replace(STRING_OR_NUMBER, (found) => (found.startsWith('"') ? found : `"${found}"`)),
  );
