import type { CallOptions } from "./operation.ts";
import { type Described, type Fields, requestOf } from "./request.ts";
import { fitsHeader, type Memory, type PurserSettings, send } from "./send.ts";

type Call = (input?: Fields, options?: CallOptions) => Promise<Fields>;

/** Returns a promise of the first page that also iterates over the entries of all pages. */
function pagesOf(call: Call, list: string, input: Fields = {}, options?: CallOptions) {
  const first = call(input, options);
  async function* entries(): AsyncGenerator<unknown> {
    for (let page = await first; ; page = await call({ ...input, cursor: page.nextCursor }, options)) {
      // The table names the field of a page that is its list.
      yield* page[list] as unknown[];
      if (page.nextCursor === null) return;
    }
  }
  return Object.assign(first, { [Symbol.asyncIterator]: entries });
}

/** Throws `TypeError` if a setting is missing or malformed, for example because an environment variable is not set. */
function assertSettings({ url, key }: PurserSettings): void {
  if (!/^https?:\/\/./.test(url)) throw new TypeError("Purser needs a url, such as https://purser.example.com.");
  if (!key) throw new TypeError("Purser needs a key: sk_…, pk_… or the administrator's token.");
  if (!fitsHeader(key)) throw new TypeError("Purser needs a key of one line. Check how its variable is set.");
}

/** The members that every client has in addition to its operations. */
export interface Client {
  /**
   * The newest state of the database that a response of this client showed. Later reads show at least this state. Copy the bookmark
   * to another client, so that its reads show the state too.
   */
  bookmark: string | null;
}

/** Returns a class with a method for each operation of the table. */
export function clientOf<Operations>(table: Readonly<Record<string, Described>>) {
  class OperationsOfTable implements Client {
    readonly #memory: Memory = { bookmark: null };

    constructor(settings: PurserSettings) {
      assertSettings(settings);
      for (const [name, described] of Object.entries(table)) {
        // `Operations` has the exact types of the responses.
        const call: Call = async (input, options) =>
          send(settings, this.#memory, requestOf(name, described, input), options) as Promise<Fields>;
        const { list } = described;
        const operation: Call = list === undefined ? call : (input, options) => pagesOf(call, list, input, options);
        Object.assign(this, { [name]: operation });
      }
    }

    get bookmark(): string | null {
      return this.#memory.bookmark;
    }
    set bookmark(bookmark: string | null) {
      this.#memory.bookmark = bookmark;
    }
  }
  // The table generates both the methods and their type.
  return OperationsOfTable as unknown as new (
    settings: PurserSettings,
  ) => Client & Operations;
}
