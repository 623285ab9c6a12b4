import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { limitsWorld } from "../../../support/limits.ts";

describe("an export", () => {
  it("names nobody but its person: the payer's copy has no member, the member's no payer, id or debits", async () => {
    const { grant, use, callOk, call } = await limitsWorld({ limits: [{ per: "member", amount: 9 }] });
    await grant("ada");
    await use(1, { eventId: "e-team", memberId: "ada", properties: { text: "private" } });
    await use(2, { eventId: "e-own", userId: "ada", memberId: "ada", properties: { text: "own" } });
    const exported = async (distinctId: string) => {
      const { downloadUrl } = await callOk("POST", "/export-person", { distinctId });
      const { pathname, search } = new URL(downloadUrl);
      const answer = await call("GET", `${pathname}${search}`);
      expect([answer.status, env.DB !== undefined]).toEqual([200, true]);
      return answer.body;
    };
    const payer = await exported("u");
    expect(payer.events.metering).toMatchObject([
      { role: "payer", eventId: "e-team", userId: "u", memberId: null, properties: null },
    ]);
    expect(JSON.stringify(payer)).not.toContain("ada");
    const member = await exported("ada");
    expect(member.events.metering).toMatchObject([
      { role: "payer", eventId: "e-own", userId: "ada", memberId: "ada", properties: { text: "own" } },
      {
        role: "member",
        eventId: null,
        userId: null,
        memberId: "ada",
        debits: null,
        uncovered: null,
        properties: { text: "private" },
      },
    ]);
    expect(JSON.stringify(member)).not.toContain("e-team");
    expect(member.person.usageLimits.map(({ used }: { used: number }) => used).toSorted()).toEqual([1, 2]);
  });
});
