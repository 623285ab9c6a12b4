export { PurserBalance, type PurserBalanceProps } from "./purser-balance.ts";
export { type PurserBalanceOptions, type PurserBalanceState, usePurserBalance } from "./use-purser-balance.ts";
