declare const inSteps: unique symbol;
/** An amount in its unit's smallest step (amounts/amount.ts). An amount in units is not assignable to this type. */
export type Steps = number & { readonly [inSteps]: true };
