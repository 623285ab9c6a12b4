/** Column types that several tables share. */

import { integer, text } from "drizzle-orm/sqlite-core";

declare const isInMinor: unique symbol;
/** An amount in its unit's smallest step (books/amounts/amount.ts). An amount in units is not assignable to this type. */
export type Minor = number & { readonly [isInMinor]: true };

/** A column with an amount in minor units. */
export const minorColumn = <Name extends string>(name: Name) => integer(name).$type<Minor>();

/** The column `unit`. */
export const unitColumn = () => text("unit", { enum: ["count", "tokens", "seconds", "cents"] });
