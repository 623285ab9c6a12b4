import { isDeviceForm } from "./device-id.ts";
import { isSharedId } from "./shared-ids.ts";

/** How an event says that another id is the same as its own. */
export type Via = "identify" | "alias";

/** The claim on an id: by which id, and whether it was sent with a secret key. */
export interface Claim {
  readonly by: string;
  readonly isVerified: boolean;
}

/** What is stored of an id, as far as claims go. */
export interface ClaimRecord {
  readonly distinctId: string;
  readonly claim: Claim | null;
  readonly version: number;
  /** It has credits, usage or a consent of its own, or was identified. */
  readonly isUser: boolean;
  /** Whether it claims other ids. */
  readonly isClaimer: boolean;
}

/** A change of one id's claim. */
export interface ClaimChange {
  readonly distinctId: string;
  /** Null: the claim ends. */
  readonly claim: (Claim & { readonly via: Via }) | null;
  readonly wasClaimed: boolean;
  /** As it was read: 0 where nothing is stored. */
  readonly version: number;
}

/** What claims changed since they were read. */
export interface ClaimChanges {
  readonly changes: readonly ClaimChange[];
  /** Ids whose claims were decided on and stay as they are: their versions must be as they were read. */
  readonly unchanged: readonly Pick<ClaimRecord, "distinctId" | "version">[];
}

/** An id so many claims below its topmost claimer claims nothing by a publishable key. */
export const depthMax = 32;

/** Claims as they are read, and then change while the events of a request are played over them (P2). Pure. */
export class Claims {
  readonly #isVerified: boolean;
  readonly #records: ReadonlyMap<string, ClaimRecord>;
  readonly #identified = new Set<string>();
  readonly #claimers = new Set<string>();
  readonly #changed = new Map<string, ClaimChange["claim"]>();
  readonly #unchanged = new Set<string>();

  /** `isVerified`: the events were sent with a secret key. */
  constructor(records: readonly ClaimRecord[], isVerified: boolean) {
    this.#isVerified = isVerified;
    this.#records = new Map(records.map((record) => [record.distinctId, record]));
  }

  /** The id was the `distinct_id` of an `$identify`: from now on it is a user. */
  identify(distinctId: string): void {
    this.#identified.add(distinctId);
  }

  /** Plays a link. Answers why it linked nothing; null when it linked, or when the two were linked already. */
  link(distinctId: string, otherId: string, via: Via): string | null {
    if (distinctId === otherId) return null;
    if (isSharedId(distinctId) || isSharedId(otherId)) return "an id that many clients share is not linked";
    // A browser's alias names the user as the other id, and the device as its own.
    const isReversed = via === "alias" && this.#isUser(otherId) && this.#isDevice(distinctId);
    const [claimer, claimed] = isReversed ? [otherId, distinctId] : [distinctId, otherId];
    const refusal = this.#isVerified ? this.#refuseVerified(claimer, claimed) : this.#refuse(claimer, claimed);
    if (refusal !== null) return refusal;
    const present = this.#claimOn(claimed);
    if (present?.by === claimer && (present.isVerified || !this.#isVerified)) return null;
    this.#changed.set(claimed, { by: claimer, via, isVerified: this.#isVerified });
    this.#claimers.add(claimer);
    return null;
  }

  changes(): ClaimChanges {
    const versionOf = (distinctId: string) => this.#records.get(distinctId)?.version ?? 0;
    return {
      changes: [...this.#changed].map(([distinctId, claim]) => ({
        distinctId,
        claim,
        wasClaimed: (this.#records.get(distinctId)?.claim ?? null) !== null,
        version: versionOf(distinctId),
      })),
      unchanged: [...this.#unchanged]
        .filter((distinctId) => !this.#changed.has(distinctId))
        .map((distinctId) => ({ distinctId, version: versionOf(distinctId) })),
    };
  }

  #claimOn(distinctId: string): Claim | null {
    const changed = this.#changed.get(distinctId);
    return changed === undefined ? (this.#records.get(distinctId)?.claim ?? null) : changed;
  }

  #isUser(distinctId: string): boolean {
    return this.#identified.has(distinctId) || this.#records.get(distinctId)?.isUser === true;
  }

  #isDevice(distinctId: string): boolean {
    return isDeviceForm(distinctId) && !this.#isUser(distinctId);
  }

  /** Why a publishable key's claim would not count, or would not be the first. */
  #refuse(claimer: string, claimed: string): string | null {
    if (!isDeviceForm(claimed))
      return "the other id does not have the form of a device id, so only a secret key can link it";
    if (this.#isUser(claimed)) return "the other id is a user's, so only a secret key can link it";
    const present = this.#claimOn(claimed);
    if (present !== null) return present.by === claimer ? null : "the other id is already linked to another id";
    let depth = 0;
    for (let above = this.#claimOn(claimer); above !== null; above = this.#claimOn(above.by)) {
      if (above.by === claimed) return "this id is already linked to the other id";
      if (++depth === depthMax) return `the chain of linked ids above this id already has ${depthMax} ids`;
    }
    return null;
  }

  /** Why a secret key's claim links nothing. Ends the claim that stands in its way, where that one is not verified. */
  #refuseVerified(claimer: string, claimed: string): string | null {
    const present = this.#claimOn(claimed);
    if (present?.isVerified === true) {
      return present.by === claimer ? null : "the other id is already linked to another id by a secret key";
    }
    // Whoever claims nobody closes no circle, however long the chain above the claimer is.
    if (this.#records.get(claimed)?.isClaimer !== true && !this.#claimers.has(claimed)) return null;
    const path: string[] = [];
    for (let id = claimer; id !== claimed; ) {
      const above = this.#claimOn(id);
      if (above === null) return null;
      path.push(id);
      id = above.by;
    }
    const ending = path.find((id) => this.#claimOn(id)?.isVerified === false);
    if (ending === undefined) return "this id is already linked to the other id by a secret key";
    // Had one of these changed meanwhile, another claim would have to end, or none.
    for (const id of path) this.#unchanged.add(id);
    this.#changed.set(ending, null);
    return null;
  }
}
