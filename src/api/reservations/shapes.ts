import { EXAMPLE } from "../common.ts";

const { balanceId, packId } = EXAMPLE;

export const reservationId = "res_7hWk3yB5nC0eUi9fMvS4Lx";

export const exampleDebit = { balanceId, packId, unit: "tokens", amount: 120, remaining: 280 };

export const reservation = {
  reservationId,
  userId: "user_42",
  event: "chat.completed",
  model: null,
  quantities: { count: 1, tokens: 120 },
  onExpiry: "return",
  status: "open",
  createdAt: "2026-01-16T08:30:00.000Z",
  expiresAt: "2026-01-16T08:31:00.000Z",
  settledAt: null,
  eventId: null,
  holds: [{ balanceId, packId, unit: "tokens", amount: 120 }],
};
