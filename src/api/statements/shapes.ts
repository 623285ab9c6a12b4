import { EXAMPLE } from "../common.ts";

export const statement = {
  statementId: "stm_4vKq9bT2xN7cRw1sHdE8Ja",
  mode: "live",
  month: "2025-12",
  status: "ready",
  madeAt: EXAMPLE.createdAt,
};
