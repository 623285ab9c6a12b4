import { isSharedId } from "../../src/people/shared-ids.ts";

export interface ModelEvent {
  readonly uuid: string;
  readonly kind: "capture" | "personless" | "identify" | "alias";
  readonly id: string;
  readonly other?: string;
}

/** What P2 and P3 say, as a union-find: whose event each is, after a history. The reference for src/people/identity.ts. */
export class IdentityModel {
  readonly #parent = new Map<string, string>();
  readonly #identified = new Set<string>();
  readonly #events: ModelEvent[] = [];

  #root(id: string): string | null {
    const parent = this.#parent.get(id);
    return parent === undefined ? null : parent === id ? id : this.#root(parent);
  }

  #join(id: string, other: string): void {
    if (id === other || isSharedId(id) || isSharedId(other)) return;
    const [mine, theirs] = [this.#root(id), this.#root(other)];
    if (mine !== null && theirs !== null && mine !== theirs && this.#identified.has(theirs)) return;
    const root = mine ?? theirs ?? id;
    this.#parent.set(root, root);
    for (const joined of [id, theirs ?? other]) this.#parent.set(joined, root);
  }

  play(event: ModelEvent): void {
    this.#events.push(event);
    if (event.kind === "personless") return;
    if (event.other !== undefined) this.#join(event.id, event.other);
    if (this.#root(event.id) === null) this.#parent.set(event.id, event.id);
    if (event.kind === "identify") this.#identified.add(this.#root(event.id) ?? event.id);
  }

  eventUuidsOf(id: string): string[] {
    const root = this.#root(id);
    if (root === null) return [];
    return this.#events
      .filter((event) => this.#root(event.id) === root)
      .map((event) => event.uuid)
      .sort();
  }

  isIdentified(id: string): boolean | null {
    const root = this.#root(id);
    return root === null ? null : this.#identified.has(root);
  }
}
