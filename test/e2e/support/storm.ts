import { createRandom, type Random } from "../../support/random.ts";
import { ADMIN_TOKEN } from "./server.ts";

/** A request that may be repeated, because the caller gives its ids. */
export interface StormRequest {
  readonly kind: "grant" | "event" | "list" | "reserve" | "commit" | "release" | "adjust" | "capture";
  readonly path: string;
  readonly body: object;
  readonly key: string;
}

export interface StormResponse {
  readonly status: number;
  /** The text of the body, without the request's id. */
  readonly body: string;
  /** Whether the response is a replay. */
  readonly isReplay: boolean;
}

/** A request and its response. Without a response (null), the effect is unknown. */
export interface Sent {
  readonly request: StormRequest;
  response: StormResponse | null;
}

interface World {
  readonly url: string;
  readonly appId: string;
  readonly key: string;
  readonly users: readonly string[];
}

export async function send(
  url: string,
  { path, body, key }: StormRequest,
  patienceMs = 20_000,
): Promise<StormResponse> {
  const answer = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(patienceMs),
  });
  const text = await answer.text();
  const isReplay = answer.headers.get("idempotent-replayed") === "true";
  return { status: answer.status, body: text.replace(/,?"requestId":"[^"]*"/g, ""), isReplay };
}

/** Whether the response is final: a 503 may be repeated. */
export const isDecided = ({ status, body }: StormResponse): boolean =>
  status < 500 && !body.includes("temporarily_unavailable");

const KINDS = { grant: 3, event: 8, list: 4, reserve: 5, commit: 4, release: 1, adjust: 2, capture: 3 } as const;

/** Sends random requests for a few users. It settles only reservations that were acknowledged. */
export class Storm {
  readonly sent: Sent[] = [];
  readonly #random: Random;
  readonly #world: World;
  readonly #open: string[] = [];
  readonly #balances: string[] = [];

  constructor(seed: number, world: World) {
    this.#random = createRandom(seed);
    this.#world = world;
  }

  /** Sends one request after another until `isOver`. An impatient caller often leaves after some milliseconds. */
  async run(url: string, isOver: () => boolean, isImpatient = false): Promise<void> {
    while (!isOver()) {
      const sent: Sent = { request: this.#someRequest(), response: null };
      this.sent.push(sent);
      try {
        sent.response = await send(
          url,
          sent.request,
          isImpatient && this.#random.chance(0.5) ? this.#random.integer(1, 60) : undefined,
        );
        this.#note(sent.request, sent.response);
      } catch {
        // The effect is unknown.
      }
    }
  }

  #note({ kind }: StormRequest, { status, body }: StormResponse): void {
    if (status !== 200) return;
    const answer = JSON.parse(body);
    if (kind === "reserve") this.#open.push(answer.reservationId);
    if (kind === "grant") this.#balances.push(answer.balances[0].balanceId);
  }

  #someRequest(): StormRequest {
    const { key, appId, users } = this.#world;
    const random = this.#random;
    const userId = random.pick(users);
    const usage = () => ({ event: "call", quantities: { count: 0, cents: random.integer(1, 40) / 4 } });
    const event = () => ({ ...usage(), eventId: random.id("evt-"), userId });
    const api = (kind: StormRequest["kind"], path: string, body: object): StormRequest => ({
      ...{ kind, path: `/api/v1/${path}`, body, key },
    });
    const kind = random.weighted(KINDS);
    if (kind === "event") return api(kind, "usage/events", event());
    if (kind === "reserve") {
      const expiresInSeconds = random.pick([1, 600]);
      return api(kind, "usage/reservations", {
        ...usage(),
        userId,
        reservationId: random.id("res_"),
        expiresInSeconds,
      });
    }
    const settled = this.#open.pop();
    if (kind === "commit" && settled !== undefined) {
      return api(kind, `usage/reservations/${settled}/commit`, {
        eventId: random.id("evt-"),
        quantities: usage().quantities,
      });
    }
    if (kind === "release" && settled !== undefined) return api(kind, `usage/reservations/${settled}/release`, {});
    if (settled !== undefined) this.#open.push(settled);
    if (kind === "adjust" && this.#balances.length > 0) {
      const path = `/api/v1/admin/balances/${random.pick(this.#balances)}/adjust`;
      const body = { delta: random.integer(1, 9), note: "storm", adjustmentId: random.id("adj-") };
      return { kind, path, body: { ...body }, key: ADMIN_TOKEN };
    }
    if (kind === "list") {
      const list = Array.from({ length: random.integer(2, 20) }, () => ({ ...event(), userId: random.pick(users) }));
      return api(kind, "usage/events", list);
    }
    if (kind === "capture") {
      const uuid = () => crypto.randomUUID();
      const batch = Array.from({ length: 5 }, () => ({
        event: "seen",
        distinct_id: userId,
        uuid: uuid(),
        properties: {},
      }));
      return { kind, path: "/batch/", body: { api_key: key, batch }, key };
    }
    return api("grant", "credits/grant", { userId, packId: `Wallet ${appId}`, externalRef: random.id("order-") });
  }
}
