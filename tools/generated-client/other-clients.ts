// Compiled, not run: the clients of two more generators know the operations, their arguments and their results.
import * as oazapfts from "../../.purser/generated/oazapfts.ts";
import { Api } from "../../.purser/generated/swagger-typescript-api.ts";

const userId = "user_42";

/** Grants, spends and lists with the client of oazapfts. Returns what remains of each balance. */
export async function spendWithOazapfts(packId: string): Promise<number[]> {
  const granted = await oazapfts.grantCredits({ userId, packId, externalRef: "order-1" });
  if (granted.status !== 200) throw new Error(granted.data.error.code);
  const recorded = await oazapfts.recordUsageEvent({
    eventId: "e1",
    userId,
    event: "chat",
    quantities: { tokens: 100 },
  });
  if (recorded.status !== 200) throw new Error(recorded.data.error.message);
  const listed = await oazapfts.listBalances(userId);
  return listed.status === 200 ? listed.data.credits.map(({ remaining }) => remaining) : [];
}

/** The same with the client of swagger-typescript-api. */
export async function spendWithSwagger(packId: string): Promise<number[]> {
  const { api } = new Api();
  const granted = await api.grantCredits({ userId, packId, externalRef: "order-1" });
  if (!granted.ok) throw new Error(granted.error.error.code);
  await api.recordUsageEvent({ eventId: "e1", userId, event: "chat", quantities: { tokens: 100 } });
  const { data } = await api.listBalances({ userId });
  return data.credits.map(({ remaining }) => remaining);
}
