export type Outcome = "granted" | "repeated" | "refused";

/** How far an import is: what became of the lines up to `line`, and of no later one. */
export interface Done {
  line: number;
  granted: number;
  repeated: number;
  refused: number;
}

interface Line {
  readonly line: number;
  outcome?: Outcome;
}

/** Counts lines in their order, although they end in any. So an import that is cut counts no line twice when it goes on. */
export class Tally {
  readonly done: Done;
  readonly #begun: Line[] = [];
  readonly #byLine = new Map<number, Line>();

  constructor(done: Done) {
    this.done = done;
  }

  begin(line: number): void {
    const begun: Line = { line };
    this.#begun.push(begun);
    this.#byLine.set(line, begun);
  }

  end(line: number, outcome: Outcome): void {
    const ended = this.#byLine.get(line);
    if (ended !== undefined) ended.outcome = outcome;
    let count = 0;
    for (const first of this.#begun) {
      if (first.outcome === undefined) break;
      count += 1;
      this.done.line = first.line;
      this.done[first.outcome] += 1;
      this.#byLine.delete(first.line);
    }
    this.#begun.splice(0, count);
  }
}
