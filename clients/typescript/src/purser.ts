import { type Operations, table } from "./generated/operations.ts";
import { type HoldUsage, holdUsage } from "./hold.ts";
import type { CallOptions } from "./operation.ts";
import { type Fields, requestOf } from "./request.ts";
import { type Memory, type PurserSettings, send } from "./send.ts";

type OperationName = keyof typeof table;
type Call = (input?: Fields, options?: CallOptions) => Promise<Fields>;

/** A promise of the first page, which is also the entries of all pages. */
function pagesOf(call: Call, list: string, input: Fields = {}, options?: CallOptions) {
  const first = call(input, options);
  async function* entries(): AsyncGenerator<unknown> {
    for (let page = await first; ; page = await call({ ...input, cursor: page.nextCursor }, options)) {
      // The table says that this field of a page is its list.
      yield* page[list] as unknown[];
      if (page.nextCursor === null) return;
    }
  }
  return Object.assign(first, { [Symbol.asyncIterator]: entries });
}

class OperationsByTable {
  protected readonly memory: Memory = { bookmark: null };

  constructor(settings: PurserSettings) {
    for (const [name, line] of Object.entries(table)) {
      // An answer of Purser's is an object; its type stands in `Operations`.
      const call: Call = async (input, options) =>
        send(settings, this.memory, requestOf(name as OperationName, input), options) as Promise<Fields>;
      const list = line.split(" ")[2];
      const operation: Call = list === undefined ? call : (input, options) => pagesOf(call, list, input, options);
      Object.assign(this, { [name]: operation });
    }
  }
}

// The methods are made of the table, and so is their type.
const Base = OperationsByTable as new (settings: PurserSettings) => OperationsByTable & Operations;

/** Calls one Purser with one key. */
export class Purser extends Base {
  readonly usage: {
    /** Reserves, runs `work`, and commits what was used. */
    readonly hold: HoldUsage;
  };

  /** Throws `TypeError` where a setting is missing, as one of an environment variable that nobody set. */
  constructor(settings: PurserSettings) {
    if (!/^https?:\/\/./.test(settings.url))
      throw new TypeError("Purser needs a url, such as https://purser.example.com.");
    if (!settings.key) throw new TypeError("Purser needs a key: sk_…, pk_… or the administrator's token.");
    super(settings);
    this.usage = { hold: (input, work) => holdUsage(this, input, work) };
  }

  /** The state that the last answer knew. Reads see at least that; give it to another client, so that its reads do too. */
  get bookmark(): string | null {
    return this.memory.bookmark;
  }
  set bookmark(bookmark: string | null) {
    this.memory.bookmark = bookmark;
  }
}
