declare const inSteps: unique symbol;
/** An amount in its unit's smallest step (books/amounts/amount.ts). An amount in units is not assignable to this type. */
export type Steps = number & { readonly [inSteps]: true };
