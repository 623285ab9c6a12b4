/** Cloudflare's prices of the paid plan, in dollars: a month, and what is beyond the included amounts (docs/costs.md). */
export const PLAN = { dollars: 5, requests: 10e6, milliseconds: 30e6, rowsWritten: 50e6, rowsRead: 25e9 };

/** The price of a million. */
export const DOLLARS = { requests: 0.3, milliseconds: 0.02, rowsWritten: 1, rowsRead: 0.001 };
