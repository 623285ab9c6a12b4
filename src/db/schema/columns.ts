/** Column types that several tables share. */

import { integer, text } from "drizzle-orm/sqlite-core";

declare const isInSteps: unique symbol;
/** An amount in its unit's smallest step (books/amounts/amount.ts). An amount in units is not assignable to this type. */
export type Steps = number & { readonly [isInSteps]: true };

/** A column with an amount in steps. */
export const stepsColumn = <Name extends string>(name: Name) => integer(name).$type<Steps>();

/** The column `unit`. */
export const unitColumn = () => text("unit", { enum: ["count", "tokens", "seconds", "cents"] });
