import { and, desc, eq, not, sql } from "drizzle-orm";
import { type MatchRule, rulesCover } from "../books/amounts/match.ts";
import { findConstraint } from "../db/attempt.ts";
import { drizzle, fields, hasRow, insertFrom, query, type ValueOf } from "../db/query.ts";
import { creditPackItems, creditPacks } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { assert } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { insertAuditEntry, newAuditEntry } from "./audit.ts";
import {
  type CreatePackInput,
  insertItemsWhere,
  nameKey,
  ofPackKey,
  type PackKey,
  type PackOutput,
  packNameTaken,
  presentPack,
  readPacks,
  selectPackById,
  storedItem,
} from "./pack.ts";

type NewPack = typeof creditPacks.$inferInsert;
type PackValues = PackKey &
  Required<Pick<NewPack, "lastItemNumber" | "name" | "nameKey" | "unit" | "matches" | "priority" | "createdAtMs">> & {
    defaultExpiryDays: number | null;
  };

/**
 * Returns a condition that is false when the batch repeats after a lost response: the pack then exists, and no statement changes
 * it.
 */
const isNewPack = (value: ValueOf<PackKey>) => not(hasRow(creditPacks, ofPackKey(value)));

const auditPackCreated = insertAuditEntry<PackKey>(isNewPack);
const lastNumber = (value: ValueOf<PackKey>) =>
  sql`coalesce((${drizzle
    .select(fields(creditPacks, "packNumber"))
    .from(creditPacks)
    .where(eq(creditPacks.appId, value("appId")))
    .orderBy(desc(creditPacks.packNumber))
    .limit(1)
    .getSQL()}), 0)`;
const insertPack = query((value: ValueOf<PackValues>) =>
  insertFrom(
    creditPacks,
    {
      appId: value("appId"),
      id: value("packId"),
      packNumber: sql`1 + ${lastNumber(value)}`,
      lastItemNumber: value("lastItemNumber", creditPacks.lastItemNumber),
      name: value("name"),
      nameKey: value("nameKey"),
      defaultExpiryDays: value("defaultExpiryDays"),
      unit: value("unit"),
      matches: value("matches"),
      priority: value("priority"),
      createdAtMs: value("createdAtMs"),
    },
    sql`WHERE ${isNewPack(value)}`,
  ),
);

/** Inserts the items after the pack that they refer to. On a repeat, a pack that has changed since keeps its items. */
const insertItems = insertItemsWhere<PackKey>((value) =>
  and(
    hasRow(creditPacks, and(ofPackKey(value), sql`${creditPacks.version} = 1`)),
    not(
      hasRow(
        creditPackItems,
        and(eq(creditPackItems.appId, value("appId")), eq(creditPackItems.packId, value("packId"))),
      ),
    ),
  ),
);

/** Creates a pack of an existing application, with items or with a unit of its own. Throws `pack_name_taken`. */
export async function createPack(admin: AdminCtx, appId: string, input: CreatePackInput): Promise<PackOutput> {
  const packId = admin.newId("cpk_");
  const pack = {
    name: input.packName,
    nameKey: nameKey(input.packName),
    defaultExpiryDays: input.defaultExpiryDays ?? null,
    unit: input.unit ?? null,
    matches: JSON.stringify(input.matches ?? []),
    priority: input.priority ?? 100,
    lastItemNumber: input.items.length,
    createdAtMs: admin.now(),
  };
  const items = JSON.stringify(input.items.map((item, index) => storedItem(item, index + 1)));
  const auditEntry = newAuditEntry(admin, { appId, action: "pack.created", target: packId, details: { version: 1 } });
  try {
    const [, , , rows] = await batch(admin.db, [
      auditPackCreated({ ...auditEntry, packId }),
      insertPack({ appId, packId, ...pack }),
      insertItems({ appId, packId, items }),
      selectPackById({ appId, packId }),
    ]);
    const [created] = readPacks(rows);
    assert(created !== undefined, "a pack that was written exists");
    return presentPack(created);
  } catch (error) {
    throw findConstraint(error) === "credit_packs_name_key" ? packNameTaken(error) : error;
  }
}

const SEPARATORS = /[.:/_-]/g;
const PREFIXES_MAX = 10;

/** Returns globs that match a name, narrowest first: the name itself, prefixes up to one of the first separators, and `*`. */
export function suggestGlobs(name: string): string[] {
  const prefixes: string[] = [];
  for (const { index } of name.matchAll(SEPARATORS)) {
    if (prefixes.length === PREFIXES_MAX) break;
    prefixes.push(`${name.slice(0, index + 1)}*`);
  }
  return [...new Set([name, ...prefixes.toReversed(), "*"])];
}

export interface RulesVerdict {
  readonly isCovered: boolean;
  /** A sentence for the person who edits the rules. */
  readonly why: string;
}

const ruleText = (rule: MatchRule): string =>
  [rule.event === undefined ? null : `event ${rule.event}`, rule.model === undefined ? null : `model ${rule.model}`]
    .filter((part) => part !== null)
    .join(" and ");

/** Returns whether balances with these rules would pay for an event, and names the matching rule, or globs that would match. */
export function testRules(rules: readonly MatchRule[], event: string, model: string | undefined): RulesVerdict {
  if (rules.length === 0) return { isCovered: true, why: "No rules: pays for every event." };
  const covering = rules.find((rule) => rulesCover([rule], event, model));
  if (covering !== undefined) return { isCovered: true, why: `The rule for ${ruleText(covering)} matches.` };
  const byEvent = rules.find((rule) => rule.model !== undefined && rulesCover([{ event: rule.event }], event, model));
  if (byEvent !== undefined) {
    const globs = model === undefined ? null : suggestGlobs(model);
    const needed = globs === null ? "The event has no model." : `Matching models would be: ${joinGlobs(globs)}.`;
    return { isCovered: false, why: `A rule matches the event, but not its model. ${needed}` };
  }
  return { isCovered: false, why: `No rule matches. Matching rules would be: ${joinGlobs(suggestGlobs(event))}.` };
}

const joinGlobs = (globs: readonly string[]): string => globs.join(", ");
