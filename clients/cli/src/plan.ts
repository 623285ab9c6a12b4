import { type Difference, differences, withoutDefaults } from "./compare.ts";
import type { Config, Item } from "./config-file.ts";
import { afterOwnChange, CliError, type Target } from "./connection.ts";
import { type Entry, fingerprint, type ListSection, SECTIONS, type State, type ValueSection } from "./sections.ts";

export interface Change {
  readonly section: string;
  readonly action: "create" | "change" | "replace" | "archive" | "delete";
  /** The changed thing in words: `pack "Starter"`. */
  readonly what: string;
  readonly fields: readonly Difference[];
  /** Whether only `--prune` does it. */
  readonly isPruning: boolean;
  /** Returns whether all that this change does not touch is as it was. */
  readonly isAlone: (before: State, after: State) => boolean;
  /** Returns the id of the changed thing, once it is there. */
  readonly idIn: (state: State) => string | undefined;
  /** Makes the change. Returns a secret that Purser made, if any. */
  readonly run: (target: Target, state: State) => Promise<string | undefined>;
}

export type States = Readonly<Record<string, State>>;

/** Reads the sections that `names` has. */
export async function readStates(target: Target, names: readonly string[]): Promise<States> {
  const entries = names.map(async (name) => [name, await SECTIONS[name]?.read(target)] as const);
  // The names are those of SECTIONS.
  return Object.fromEntries(await Promise.all(entries)) as States;
}

/** Returns the sections that `names` has, as they are in a new application. */
export function unsetStates(names: readonly string[]): States {
  return Object.fromEntries(
    names.map((name) => {
      const section = SECTIONS[name];
      return [name, section?.kind === "value" ? { value: section.unset } : []];
    }),
  );
}

/** Returns, by section, what Purser has twice under one name. A file cannot tell two such things apart. */
export function duplicatesOf(states: States): ReadonlyMap<string, string> {
  const found = Object.entries(SECTIONS).flatMap(([name, section]) => {
    const state = states[name];
    if (section.kind !== "list" || state === undefined) return [];
    const twice = findTwice(
      section,
      (state as readonly Entry[]).map(({ item }) => item),
    );
    return twice === undefined ? [] : [[name, quoted(section, twice)] as const];
  });
  return new Map(found);
}

/** Returns Purser's settings as they stand in a file, without some sections. */
export function configOf(states: States, leftOut: ReadonlyMap<string, unknown>): Config {
  const entries = Object.entries(states).filter(([name]) => !leftOut.has(name));
  return Object.fromEntries(
    entries.map(([name, state]) => {
      const defaults = SECTIONS[name]?.defaults ?? {};
      if ("value" in state) {
        const { value } = state;
        const isPlain = typeof value !== "object" || value === null || Array.isArray(value);
        return [name, isPlain ? value : withoutDefaults(value as Item, defaults)];
      }
      return [name, state.map(({ item }) => withoutDefaults(item, defaults))];
    }),
  );
}

const quoted = (section: ListSection, item: Item) => `${section.title} "${item.packName ?? item.name ?? item.url}"`;

/** Returns whether all entries but the item's are the same. */
const othersEqual = (section: ListSection, item: Item) => (before: State, after: State) => {
  const others = (state: State) =>
    (state as readonly Entry[]).filter((entry) => section.nameOf(entry.item) !== section.nameOf(item));
  return fingerprint(others(before)) === fingerprint(others(after));
};

const idOf = (section: ListSection, item: Item) => (state: State) =>
  (state as readonly Entry[]).find((entry) => section.nameOf(entry.item) === section.nameOf(item))?.id;

const entryNamed = (section: ListSection, state: State, item: Item): Entry => {
  const found = (state as readonly Entry[]).find((entry) => section.nameOf(entry.item) === section.nameOf(item));
  if (found === undefined) throw new CliError(`${quoted(section, item)} is not there any more.`);
  return found;
};

/** Returns the first item whose name an earlier one has. */
function findTwice(section: ListSection, items: readonly Item[]): Item | undefined {
  const names = items.map(section.nameOf);
  return items.find((_, at) => names.indexOf(names[at] ?? "") < at);
}

function changesOfList(
  name: string,
  section: ListSection,
  entries: readonly Entry[],
  wanted: readonly Item[],
): Change[] {
  const names = wanted.map(section.nameOf);
  const twice = findTwice(section, wanted);
  if (twice !== undefined) throw new CliError(`The file has ${quoted(section, twice)} twice.`);
  const written = wanted.flatMap((item): Change[] => {
    const what = quoted(section, item);
    const found = entries.find((entry) => section.nameOf(entry.item) === section.nameOf(item));
    const base = {
      section: name,
      what,
      isPruning: false,
      isAlone: othersEqual(section, item),
      idIn: idOf(section, item),
    };
    const create = (target: Target) => section.create(target, item);
    if (found === undefined) return [{ ...base, action: "create", fields: [], run: create }];
    const fields = differences(found.item, section.normalise?.(item) ?? item, section.defaults);
    if (fields.length === 0) return [];
    if (fields.some(({ field }) => section.fixed.includes(field))) {
      const replace = async (target: Target, state: State) => {
        await section.remove(target, entryNamed(section, state, item));
        return create(afterOwnChange(target));
      };
      return [{ ...base, action: "replace", fields, run: replace }];
    }
    const change = async (target: Target, state: State) => {
      await section.change(target, entryNamed(section, state, item), item);
      return undefined;
    };
    return [{ ...base, action: "change", fields, run: change }];
  });
  const removed = entries
    .filter(({ item }) => !names.includes(section.nameOf(item)))
    .map(
      ({ item }): Change => ({
        section: name,
        action: section.removal,
        what: quoted(section, item),
        fields: [],
        isPruning: true,
        isAlone: othersEqual(section, item),
        idIn: idOf(section, item),
        run: async (target, state) => {
          await section.remove(target, entryNamed(section, state, item));
          return undefined;
        },
      }),
    );
  return [...written, ...removed];
}

/** Returns a setting as an object without what is as by default, so that settings are compared field by field. */
function comparable(section: ValueSection, value: unknown): Item {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { value };
  return withoutDefaults(section.normalise?.(value as Item) ?? (value as Item), section.defaults);
}

function changesOfValue(name: string, section: ValueSection, before: unknown, after: unknown): Change[] {
  const [was, willBe] = [comparable(section, before), comparable(section, after)];
  const empty = Object.fromEntries(Object.keys(was).map((field) => [field, null]));
  const fields = differences(was, { ...empty, ...willBe }, {});
  if (fields.length === 0) return [];
  const run = async (target: Target, state: State) => {
    await section.set(target, after, "version" in state ? state.version : undefined);
    return undefined;
  };
  const action = before === null ? "create" : "change";
  return [
    {
      section: name,
      action,
      what: section.title,
      fields,
      isPruning: false,
      isAlone: () => true,
      idIn: () => undefined,
      run,
    },
  ];
}

/** Returns what would make Purser's settings those of the file, in the order in which it is done. */
export function planOf(config: Config, states: States): Change[] {
  const changes = Object.entries(SECTIONS).flatMap(([name, section]): Change[] => {
    const [wanted, state] = [config[name], states[name]];
    if (wanted === undefined || state === undefined) return [];
    if (section.kind === "list") return changesOfList(name, section, state as readonly Entry[], wanted as Item[]);
    const sorted = name === "expiryNotices" ? (wanted as number[]).toSorted((a, b) => a - b) : wanted;
    return changesOfValue(name, section, (state as { value: unknown }).value, sorted);
  });
  // Things that others may refer to are removed last.
  return [...changes.filter(({ isPruning }) => !isPruning), ...changes.filter(({ isPruning }) => isPruning)];
}
