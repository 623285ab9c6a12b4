/** A deployment may bind several databases: `DB`, then `DB_1` to `DB_9`. */
const databasesMax = 10;

export interface Database {
  /** 0 for `DB`, n for `DB_n`: the last character of every id that names its database. */
  readonly index: number;
  /** The name of its binding: `DB`, `DB_1`. */
  readonly name: string;
  readonly d1: D1Database;
}

const nameOf = (index: number): string => (index === 0 ? "DB" : `DB_${index}`);

/** The database of an index; null where none is bound. */
export function databaseAt(env: object, index: number): Database | null {
  const name = nameOf(index);
  // Further databases are bound by the deployment, so their bindings have no generated type.
  const d1 = Reflect.get(env, name) as D1Database | undefined;
  return d1 === undefined ? null : { index, name, d1 };
}

/** All bound databases, `DB` first. */
export function allDatabases(env: object): readonly Database[] {
  const found = Array.from({ length: databasesMax }, (_, index) => databaseAt(env, index));
  return found.filter((database) => database !== null);
}

/** The database index at the end of an application's or a balance's id. Null when the text is no such id. */
export function databaseIndexOf(id: string): number | null {
  const digit = /^[a-z]{3}_[0-9A-Za-z]{22}([0-9])$/.exec(id)?.[1];
  return digit === undefined ? null : Number(digit);
}

/** An id that names its database: `randomId` is a prefix and 22 characters. */
export function idIn(index: number, randomId: string): string {
  return `${randomId}${index}`;
}
