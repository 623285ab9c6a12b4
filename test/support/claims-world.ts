import { flushActivity } from "../../src/db/count-activity.ts";
import type { ModelEvent } from "./claims-model.ts";
import { END_USER_SETTING } from "./end-user-setting.ts";
import { linkTo } from "./exports.ts";
import { userToken } from "./keyed-routes.ts";
import { signatureOf } from "./payments.ts";
import { takeStripe } from "./send-stripe.ts";
import { eventOf, session } from "./stripe-events.ts";
import {
  type Answer,
  bound,
  type Client,
  Clock,
  makeApp,
  makeClient,
  makeOpenAmountPack,
  type TestApp,
} from "./world.ts";

export type Dialect = "v0" | "v1";

/** An event of the model, with its other fields. */
export interface ClaimsEvent extends ModelEvent {
  readonly properties?: Readonly<Record<string, unknown>>;
}

/** The parts of the export document that these tests read. */
export interface ClaimsDocument {
  readonly person: {
    readonly personId: string | null;
    readonly distinctIds: readonly {
      readonly distinctId: string;
      readonly linkedAt: string;
      readonly via: "identify" | "alias" | null;
      readonly claimedBy: string | null;
      readonly isVerified: boolean;
    }[];
    readonly properties: Readonly<Record<string, string>>;
    readonly createdAt: string | null;
    readonly lastSeenAt: string | null;
    readonly isIdentified: boolean;
    readonly credits: { readonly balances: readonly { readonly balanceId: string }[] };
  } | null;
  readonly events: {
    readonly analytics: readonly {
      readonly uuid: string;
      readonly event: string;
      readonly distinctId: string;
      readonly isVerified: boolean;
    }[];
    readonly metering: readonly { readonly eventId: string }[];
  };
  readonly consentLog: readonly { readonly consentId: string }[];
}

const NAMES = { capture: "seen", identify: "$identify", alias: "$create_alias" } as const;

function wireEvent(event: ClaimsEvent, dialect: Dialect, clock: Clock) {
  const { uuid, id, kind, other, isPersonless = false, isSignedIn, set, setOnce, unset } = event;
  const properties = {
    ...event.properties,
    ...(isSignedIn === undefined ? {} : { $is_identified: isSignedIn }),
    ...(kind === "alias" ? { distinct_id: id, alias: other } : {}),
    ...(kind === "identify" && other !== undefined ? { $anon_distinct_id: other } : {}),
    ...(set === undefined ? {} : { $set: set }),
    ...(setOnce === undefined ? {} : { $set_once: setOnce }),
    ...(unset === undefined ? {} : { $unset: unset }),
  };
  const common = { uuid, event: NAMES[kind], distinct_id: id, timestamp: new Date(clock.ms).toISOString() };
  if (dialect === "v1") {
    return { ...common, properties, options: isPersonless ? { process_person_profile: false } : {} };
  }
  return { ...common, properties: isPersonless ? { ...properties, $process_person_profile: false } : properties };
}

/** An application whose people send events, use credits, give consents and request their data, all over HTTP. */
export class ClaimsWorld {
  readonly app: TestApp;
  readonly clock: Clock;
  readonly call: Client;
  readonly #pack: string;

  constructor(app: TestApp, clock: Clock, call: Client, pack: string) {
    this.app = app;
    this.clock = clock;
    this.call = call;
    this.#pack = pack;
  }

  /** Sends events in one request. Its key is the first event's, unless `key` is set. Returns any response. */
  post(
    events: readonly ClaimsEvent[],
    dialect: Dialect = "v0",
    headers: Record<string, string> = {},
    key = this.app.keys[events[0]?.key === "secret" ? "sk_live" : "pk_live"],
  ): Promise<Answer> {
    const batch = events.map((event) => wireEvent(event, dialect, this.clock));
    if (dialect === "v1") return this.call("POST", "/i/v1/analytics/events", { key, body: { batch }, headers });
    return this.call("POST", "/batch/", { body: { api_key: key, batch }, headers });
  }

  async send(events: readonly ClaimsEvent[], dialect: Dialect = "v0", key?: string): Promise<Answer> {
    const answer = await this.post(events, dialect, {}, key);
    if (answer.status !== 200) throw new Error(`${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer;
  }

  async #ask(path: string, body: object, headers: Record<string, string> = {}, key = this.app.keys.sk_live) {
    const answer = await this.call("POST", `/api/v1/${path}`, { key, body, headers });
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  /** Grants one credit and returns the balance's id. */
  async grant(userId: string, notes = "a gift"): Promise<string> {
    const granted = await this.#ask("credits/grant", { userId, packId: this.#pack, quantity: 1, notes });
    return granted.balances?.[0]?.balanceId ?? granted.balanceId;
  }

  /** Records usage that no balance pays for, and returns the event's id. */
  async use(userId: string, note = "a note"): Promise<string> {
    const body = { eventId: crypto.randomUUID(), userId, event: "chat", onShortage: "partial", properties: { note } };
    await this.#ask("usage/events", body);
    return body.eventId;
  }

  /** Sends usage that is rejected because no credits pay for it, and waits until the rejection is stored. */
  async beRejected(userId: string, event = "chat"): Promise<void> {
    const body = { eventId: crypto.randomUUID(), userId, event };
    const answer = await this.call("POST", "/api/v1/usage/events", { key: this.app.keys.sk_live, body });
    if (answer.status !== 402) throw new Error(`The usage event got ${answer.status}, not 402.`);
    await flushActivity(bound());
  }

  /** Creates a reservation that holds nothing. */
  async reserve(userId: string): Promise<void> {
    await this.#ask("usage/reservations", { userId, event: "chat", quantities: { count: 0 } });
  }

  /** Sends Stripe's event about a paid session of this user, which grants nothing. */
  async pay(userId: string): Promise<void> {
    await takeStripe(this.call, this.app.appId);
    const fields = { client_reference_id: userId, customer: `cus_${crypto.randomUUID()}`, metadata: {} };
    const paid = session(`cs_${crypto.randomUUID()}`, { ...fields, payment_intent: `pi_${crypto.randomUUID()}` });
    const body = JSON.stringify(eventOf("checkout.session.completed", Math.floor(this.clock.ms / 1_000), paid));
    const headers = { "stripe-signature": await signatureOf(body, this.clock) };
    const answer = await this.call("POST", `/api/v1/stripe/${this.app.appId}/live`, { body, headers });
    if (answer.status !== 200) throw new Error(`Stripe's event got ${answer.status}: ${JSON.stringify(answer.body)}`);
  }

  /** The ids that an erasure of this id would erase. */
  async wouldErase(distinctId: string): Promise<readonly string[]> {
    return (await this.#ask("erase-person", { distinctId, dryRun: true })).distinctIds;
  }

  async erase(distinctId: string): Promise<void> {
    await this.#ask("erase-person", { distinctId });
  }

  /** Records a consent, with a user token or a secret key, and returns its id. */
  async consent(
    distinctId: string,
    by: "user token" | "secret key" | "secret key, of a device",
    purpose = "ads",
  ): Promise<string> {
    const body = { distinctId, purpose, decision: "granted" };
    if (by === "secret key, of a device") return (await this.#ask("consent", { ...body, isDevice: true })).consentId;
    if (by === "secret key") return (await this.#ask("consent", body)).consentId;
    const token = await userToken(distinctId, this.clock);
    return (await this.#ask("consent", body, { "x-user-token": token }, this.app.keys.pk_live)).consentId;
  }

  /** The export document of this id. */
  async exportOf(distinctId: string): Promise<ClaimsDocument> {
    const answer = await this.call("GET", await linkTo(this.app, distinctId, this.clock));
    if (answer.status !== 200) throw new Error(`The download got ${answer.status}.`);
    return answer.body;
  }

  /** The ids of the person of this id. */
  async idsOf(distinctId: string): Promise<string[]> {
    const { person } = await this.exportOf(distinctId);
    return (person?.distinctIds ?? []).map((entry) => entry.distinctId).sort();
  }
}

export async function makeClaimsWorld(bindings: Partial<Env> = {}): Promise<ClaimsWorld> {
  const clock = new Clock();
  const app = await makeApp(END_USER_SETTING);
  const pack = await makeOpenAmountPack(app.appId, "Wallet", "cents");
  return new ClaimsWorld(app, clock, makeClient(clock, bindings), pack);
}

type Rest = Partial<Omit<ClaimsEvent, "id" | "other" | "kind">>;

const asEvent = (kind: ModelEvent["kind"], id: string, other: string | undefined, rest: Rest): ClaimsEvent => ({
  ...{ uuid: crypto.randomUUID(), key: "publishable", kind, id },
  ...(other === undefined ? {} : { other }),
  ...rest,
});

/** Events with a publishable key, unless `rest` has another one. */
export const seen = (id: string, rest: Rest = {}): ClaimsEvent => asEvent("capture", id, undefined, rest);
export const identify = (id: string, other?: string, rest: Rest = {}): ClaimsEvent =>
  asEvent("identify", id, other, rest);
export const alias = (id: string, other: string, rest: Rest = {}): ClaimsEvent => asEvent("alias", id, other, rest);

export const WITH_SECRET_KEY = { key: "secret" } as const;

/** An id in the form of a device id. */
export const newDevice = (): string => crypto.randomUUID();
