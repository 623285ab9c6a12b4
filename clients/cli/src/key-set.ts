import { createHash } from "node:crypto";

/** A set of texts that keeps 64 bits of each one's hash: 16 bytes a text, so that a million take 16 MB. */
export class KeySet {
  #slots = new BigUint64Array(1_024);
  #size = 0;

  /** Adds a text. Returns false if it was there. */
  add(text: string): boolean {
    if (this.#size * 2 >= this.#slots.length) this.#grow();
    const hash = createHash("sha256").update(text).digest().readBigUInt64LE() || 1n;
    if (!this.#insert(hash)) return false;
    this.#size += 1;
    return true;
  }

  #insert(hash: bigint): boolean {
    const mask = this.#slots.length - 1;
    for (let at = Number(hash & BigInt(mask)); ; at = (at + 1) & mask) {
      if (this.#slots[at] === hash) return false;
      if (this.#slots[at] !== 0n) continue;
      this.#slots[at] = hash;
      return true;
    }
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new BigUint64Array(before.length * 2);
    for (const hash of before) if (hash !== 0n) this.#insert(hash);
  }
}
