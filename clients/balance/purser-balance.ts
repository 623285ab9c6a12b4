/**
 * `<purser-balance publishable-key="pk_live_…" user-id="user_grace">`: an element that shows a user's remaining credits.
 * docs/balance-element.md describes it.
 */
import { type Balance, nextToExpire, totalsByUnit, type UnitTotal } from "./credits.ts";
import { type Limit, nextToBegin, placeOf, type Recurring } from "./limits.ts";
import { Refusal, warnOf } from "./refusal.ts";
import { styles } from "./styles.ts";

/** Sign-in services return null or undefined while nobody is signed in. */
type Token = string | null | undefined | Promise<string | null | undefined>;
type State = "loading" | "ok" | "low" | "empty" | "unknown";

/** The element's texts. An attribute with the name of a text replaces it. */
const WORDS = {
  "text-count": "Uses",
  "text-tokens": "Tokens",
  "text-seconds": "Seconds",
  "text-cents": "Cents",
  "text-low": "low",
  "text-expires": "Next to expire, on {date}: {amounts}",
  "text-next": "New credits on {date}: {pack}",
  "text-limit": "{used} of {amount} {window}",
  "text-resets": "resets at {time}, {place}",
  "text-minute": "this minute",
  "text-hour": "this hour",
  "text-day": "today",
  "text-week": "this week",
  "text-month": "this month",
  "text-empty": "No credits left.",
  "text-loading": "",
  "text-unknown": "Your credits cannot be shown now.",
};
type Word = keyof typeof WORDS;
/** The word for `cents` when they are shown as money. */
const MONEY = "Balance";

/** The percentage of the granted amount below which a unit is low, unless `low` or `low-<unit>` sets another one. */
const LOW_PERCENT = 10;
const DAY_MS = 86_400_000;
/** How long the element waits after a fault of the network. */
const RETRY_SECONDS = 60;
const SECRET_KEY =
  "<purser-balance> was given a secret key, which everybody who opens this page can read. " +
  "Remove it from the page, replace it, and give publishable-key a key that begins with pk_.";

type Content = string | HTMLElement;

/** The operator's own names of units, from `GET /api/v1/unit-names`. */
type UnitNames = Readonly<Record<string, { readonly one: string; readonly other: string } | undefined>>;

/** The answers that the element shows. Answers that were not requested are empty. */
interface Shown {
  readonly credits: readonly Balance[];
  readonly limits: readonly Limit[];
  readonly recurring: readonly Recurring[];
  readonly names: UnitNames;
}

/** Returns text with its own direction, so that a number or a date reads correctly in a line of the other direction. */
function apart(...content: readonly Content[]): HTMLElement {
  const element = document.createElement("bdi");
  element.append(...content);
  return element;
}

class SecretKeyError extends Error {}

/** The base class. A server that renders pages has no elements, and there the import has no effect. */
const Base = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

export class PurserBalance extends Base {
  static readonly observedAttributes = ["url", "publishable-key", "user-id", "event", "limits", "recurring"];

  #getToken: (() => Token) | null = null;
  #request: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #bookmark = "";
  #names: UnitNames = {};
  /** Whether `connectedCallback` has run. An upgrade reports each attribute before it, and must not read for each. */
  #isOnPage = false;
  readonly #root = this.attachShadow({ mode: "open" });
  readonly #box = document.createElement("div");

  constructor() {
    super();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(styles);
    this.#root.adoptedStyleSheets = [sheet];
    this.#box.setAttribute("part", "balance");
    this.#box.setAttribute("role", "status");
    this.#root.append(this.#box, document.createElement("slot"));
    // A page may have set it before this script ran. Then it is an own property of the element, and hides the accessor.
    const given = Object.getOwnPropertyDescriptor(this, "getToken")?.value;
    if (Reflect.deleteProperty(this, "getToken") && given) this.#getToken = given;
  }

  /** Returns the user's own sign-in token. Without this function, the event `purser-token` asks for a token. */
  get getToken(): (() => Token) | null {
    return this.#getToken;
  }
  set getToken(getToken: (() => Token) | null | undefined) {
    const isFirst = this.#getToken === null;
    this.#getToken = getToken ?? null;
    // The page's script runs after this one. A framework sets another function at each rendering, which is no reason to read
    // again.
    if (isFirst && this.#isOnPage) this.#refresh();
  }

  connectedCallback(): void {
    this.#isOnPage = true;
    addEventListener("online", this.#refresh);
    addEventListener("offline", this.#refresh);
    addEventListener("purser-refresh", this.#refresh);
    document.addEventListener("visibilitychange", this.#refresh);
    this.#refresh();
  }

  disconnectedCallback(): void {
    this.#isOnPage = false;
    removeEventListener("online", this.#refresh);
    removeEventListener("offline", this.#refresh);
    removeEventListener("purser-refresh", this.#refresh);
    document.removeEventListener("visibilitychange", this.#refresh);
    this.#request?.abort();
    clearTimeout(this.#timer);
  }

  /** A property rather than a method, so that it can be added to and removed from events. */
  readonly #refresh = (): void => {
    if (document.visibilityState === "visible") void this.refresh();
  };

  attributeChangedCallback(_name: string, before: string | null, after: string | null): void {
    if (before === after) return;
    // Another user's credits must not stay visible while this user's are read, nor appear when their own read ends.
    this.#request?.abort();
    this.#show("loading", []);
    if (this.#isOnPage) this.#refresh();
  }

  /** Reads the credits again. With a bookmark, the `x-d1-bookmark` of a write's response, it sees at least that write. */
  async refresh(bookmark = ""): Promise<void> {
    this.#request?.abort();
    clearTimeout(this.#timer);
    if (bookmark > this.#bookmark) this.#bookmark = bookmark;
    const request = new AbortController();
    this.#request = request;
    try {
      this.#assertPublishable();
      const shown = await this.#read(request.signal);
      if (request.signal.aborted) return;
      this.#tell(shown);
    } catch (error) {
      if (request.signal.aborted) return;
      const isSecret = error instanceof SecretKeyError;
      this.#show("unknown", [this.#paragraph("message", isSecret ? SECRET_KEY : this.#word("text-unknown"))]);
      if (!isSecret) warnOf(error);
      // Purser says itself when it may be asked again.
      if (!isSecret && !(error instanceof Refusal)) this.#refreshIn(RETRY_SECONDS * 1_000);
      this.dispatchEvent(new CustomEvent("purser-error", { detail: error }));
    }
  }

  /** Throws for a secret, relay or administration key, so that it is never sent. */
  #assertPublishable(): void {
    if (!/^\s*[sra]k_/.test(this.getAttribute("publishable-key") ?? "")) return;
    console.error(SECRET_KEY);
    throw new SecretKeyError(SECRET_KEY);
  }

  async #read(signal: AbortSignal): Promise<Shown> {
    if (this.#box.childElementCount === 0)
      this.#show("loading", [this.#paragraph("message", this.#word("text-loading"))]);
    // A framework sets the attributes and `getToken` of another user one after the other. They are read when all are set.
    await null;
    signal.throwIfAborted();
    const [key, user] = [this.getAttribute("publishable-key"), this.getAttribute("user-id")];
    if (!key || !user) throw new TypeError("<purser-balance> needs the attributes publishable-key and user-id.");
    const headers = { authorization: `Bearer ${key}`, "x-user-token": await this.#token() };
    const event = this.getAttribute("event");
    const get = (path: string, query = {}) => this.#get(path, { userId: user, ...query }, headers, signal);
    const [{ credits }, { limits }, { recurring }, { names }] = await Promise.all([
      get("credits", event ? { event } : {}),
      this.hasAttribute("limits") ? get("usage/limits") : { limits: [] },
      this.hasAttribute("recurring") ? get("credits/recurring") : { recurring: [] },
      // The browser keeps the names for five minutes. Without them the element shows its own words.
      get("unit-names").catch(() => ({ names: {} })),
    ]);
    return { credits, limits, recurring, names };
  }

  async #get(path: string, query: Record<string, string>, headers: Record<string, string>, signal: AbortSignal) {
    const url = new URL(`/api/v1/${path}`, this.getAttribute("url") ?? import.meta.url);
    url.search = `${new URLSearchParams(query)}`;
    const response = await fetch(url, {
      headers: this.#bookmark === "" ? headers : { ...headers, "x-d1-bookmark": this.#bookmark },
      signal,
    });
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    const { error, ...answer } = isJson ? await response.json() : {};
    const seconds = Number(response.headers.get("retry-after") ?? (isJson ? 0 : RETRY_SECONDS));
    if (seconds > 0 && !signal.aborted) this.#refreshIn(seconds * 1_000);
    if (response.ok && isJson) return answer;
    // A proxy, or an app's own server, responds in another form.
    const message = `Something that is not Purser answered ${response.status}.`;
    throw new Refusal(typeof error?.code === "string" ? error : { code: "unknown_answer", message });
  }

  async #token(): Promise<string> {
    let given = this.#getToken?.();
    if (this.#getToken === null) {
      const provide = (token: Token) => {
        given = token;
      };
      this.dispatchEvent(new CustomEvent("purser-token", { bubbles: true, composed: true, detail: { provide } }));
      if (given === undefined)
        throw new TypeError("<purser-balance> has no getToken, and nobody answered purser-token.");
    }
    const token = await given;
    if (!token) throw new TypeError("<purser-balance> got no token. Is the user signed in?");
    return token;
  }

  #refreshIn(ms: number): void {
    clearTimeout(this.#timer);
    // Timers have at most 24 days. A day is enough, because the element then reads when to read next.
    if (this.#isOnPage && ms > 0 && ms < Number.POSITIVE_INFINITY)
      this.#timer = setTimeout(this.#refresh, Math.min(ms, DAY_MS));
  }

  #tell({ credits, limits, recurring, names }: Shown): void {
    this.#names = names;
    const totals = totalsByUnit(credits);
    const low = [...totals].filter(([unit, total]) => this.#isLow(unit, total)).map(([unit]) => unit);
    const list = document.createElement("dl");
    list.setAttribute("part", "list");
    for (const [unit, { remaining }] of totals) {
      const parts = low.includes(unit) ? " low" : "";
      const note = low.includes(unit) ? ` (${this.#word("text-low")})` : "";
      const amount = this.#element("dd", `amount ${unit}${parts}`, ...this.#amount(unit, remaining), note);
      list.append(
        this.#element("div", "row", this.#element("dt", `unit ${unit}${parts}`, this.#unitTitle(unit)), amount),
      );
    }
    const next = nextToExpire(credits);
    const begins = nextToBegin(recurring);
    const bounds = limits.flatMap((limit) => this.#limitRow(limit));
    const isEmpty = totals.size === 0;
    this.#show(isEmpty ? "empty" : low.length > 0 ? "low" : "ok", [
      ...(isEmpty ? [this.#paragraph("message empty", this.#word("text-empty"))] : [list]),
      ...(next === null ? [] : [this.#paragraph("expires", ...this.#expiry(next))]),
      ...(begins === null ? [] : [this.#paragraph("next", ...this.#beginning(begins))]),
      ...(bounds.length === 0 ? [] : [this.#element("dl", "limits", ...bounds)]),
    ]);
    // Reads again at the next expiry, window or period, because what is shown then changes.
    const moments = [next?.at, begins?.at, ...limits.map(({ resetsAt }) => new Date(resetsAt))];
    const waits = moments.flatMap((at) => (at === undefined ? [] : [at.getTime() - Date.now() + 1_000]));
    this.#refreshIn(Math.min(...waits.filter((ms) => ms > 0)));
    const remaining = Object.fromEntries([...totals].map(([unit, total]) => [unit, total.remaining]));
    this.dispatchEvent(new CustomEvent("purser-balance", { detail: { state: this.dataset.state, remaining, limits } }));
  }

  #isLow(unit: string, { remaining, initial }: UnitTotal): boolean {
    const amount = this.getAttribute(`low-${unit}`);
    if (amount !== null) return remaining < Number(amount);
    return remaining < (initial * Number(this.getAttribute("low") ?? LOW_PERCENT)) / 100;
  }

  #expiry({ at, totals }: { at: Date; totals: Map<string, UnitTotal> }): Content[] {
    const amounts = [...totals].map(([unit, { remaining }]) =>
      apart(...this.#amount(unit, remaining), this.#isMoney(unit) ? "" : ` ${this.#unitWord(unit, remaining)}`),
    );
    // The language decides the list's words and order. Its elements are the amounts, by index.
    const places = new Intl.ListFormat(this.#language()).formatToParts(amounts.map((_, place) => `${place}`));
    const list = places.map(({ type, value }) => (type === "element" ? (amounts[Number(value)] ?? "") : value));
    return this.#fill("text-expires", { amounts: list, date: [this.#date(at)] });
  }

  #beginning({ at, packName }: { at: Date; packName: string }): Content[] {
    return this.#fill("text-next", { date: [this.#date(at)], pack: [apart(packName)] });
  }

  /** Returns the row of a limit; none if the limit does not apply to the user. */
  #limitRow({ name, unit, every, used, amount, resetsAt, timeZone }: Limit): HTMLElement[] {
    if (amount === null) return [];
    const parts = used >= amount ? " reached" : "";
    const bound = this.#fill("text-limit", {
      used: [apart(...this.#amount(unit, used))],
      amount: [apart(...this.#amount(unit, amount))],
      window: [this.#word(`text-${every}`)],
    });
    const place = placeOf(timeZone);
    const resets =
      place === null || timeZone === null
        ? []
        : this.#fill("text-resets", {
            time: [this.#resetTime(new Date(resetsAt), every, timeZone)],
            place: [apart(place)],
          });
    return [
      this.#element(
        "div",
        "row",
        this.#element("dt", `limit${parts}`, apart(name)),
        this.#element("dd", `used${parts}`, ...bound),
        ...(resets.length === 0 ? [] : [this.#element("dd", "resets", ...resets)]),
      ),
    ];
  }

  /** Returns a text with its places, such as `{date}`, filled in. */
  #fill(word: Word, places: Readonly<Record<string, readonly Content[]>>): Content[] {
    return this.#word(word)
      .split(/\{(\w+)\}/)
      .flatMap((text, index): readonly Content[] => (index % 2 === 0 ? [text] : (places[text] ?? [`{${text}}`])));
  }

  #date(at: Date): HTMLElement {
    const isSoon = at.getTime() - Date.now() < DAY_MS;
    const format = new Intl.DateTimeFormat(this.#language(), {
      dateStyle: "medium",
      ...(isSoon && { timeStyle: "short" }),
    });
    return apart(format.format(at));
  }

  /** Returns when a window ends, in the limit's own zone. A browser that does not know the zone shows its own time. */
  #resetTime(at: Date, every: Limit["every"], timeZone: string): HTMLElement {
    const styles: Intl.DateTimeFormatOptions = {
      timeStyle: "short",
      ...(every !== "day" && { dateStyle: "medium" }),
    };
    try {
      return apart(new Intl.DateTimeFormat(this.#language(), { ...styles, timeZone }).format(at));
    } catch {
      return apart(new Intl.DateTimeFormat(this.#language(), styles).format(at));
    }
  }

  #isMoney(unit: string): boolean {
    return unit === "cents" && this.hasAttribute("currency");
  }

  /** Returns an amount as text, rounded down so that it never shows more than remains. */
  #amount(unit: string, amount: number): Content[] {
    const currency = this.getAttribute("currency");
    // This option is newer than the types of this target.
    const floor = { roundingMode: "floor" } as Intl.NumberFormatOptions;
    if (unit !== "cents" || currency === null) {
      return [new Intl.NumberFormat(this.#language(), { maximumFractionDigits: 2, ...floor }).format(amount)];
    }
    const format = new Intl.NumberFormat(this.#language(), { style: "currency", currency, ...floor });
    // `cents` are the currency's smallest unit: yen have no decimals, Kuwaiti dinars three.
    const digits = format.resolvedOptions().maximumFractionDigits ?? 2;
    return format
      .formatToParts(amount / 10 ** digits)
      .map(({ type, value }) => (type === "currency" ? apart(value) : value));
  }

  /** Returns the language of the page; undefined, for the browser's own, if the page names none. */
  #language(): string | undefined {
    // `closest` does not leave a shadow tree.
    const tag = (this.closest("[lang]") ?? document.documentElement).getAttribute("lang") ?? "";
    try {
      // Many frameworks write `en_US`.
      return Intl.getCanonicalLocales(tag.replaceAll("_", "-"))[0];
    } catch {
      return undefined;
    }
  }

  /** Returns the name of an amount's unit: the attribute's, the operator's, or the element's own word. */
  #unitWord(unit: string, amount: number): string {
    const word = `text-${unit}`;
    const given = this.getAttribute(word);
    if (given !== null) return given;
    if (this.#isMoney(unit)) return MONEY;
    const name = this.#names[unit];
    // 1.004 is shown as 1, see `#amount`.
    if (name !== undefined) return Math.floor(amount * 100) === 100 ? name.one : name.other;
    return word in WORDS ? this.#word(word as Word) : unit;
  }

  /** Returns the heading of a unit. */
  #unitTitle(unit: string): string {
    const word = this.#unitWord(unit, 0);
    return this.hasAttribute(`text-${unit}`)
      ? word
      : word.charAt(0).toLocaleUpperCase(this.#language()) + word.slice(1);
  }

  #word(word: Word): string {
    return this.getAttribute(word) ?? WORDS[word];
  }

  #element(name: string, part: string, ...content: readonly Content[]): HTMLElement {
    const element = document.createElement(name);
    element.setAttribute("part", part);
    element.append(...content);
    return element;
  }

  #paragraph(part: string, ...content: readonly Content[]): HTMLElement {
    return this.#element("p", part, ...content);
  }

  #show(state: State, content: readonly HTMLElement[]): void {
    this.dataset.state = state;
    this.#box.setAttribute("aria-busy", String(state === "loading"));
    // Unchanged content stays in place. Otherwise a screen reader would read it out again.
    if (content.map(({ outerHTML }) => outerHTML).join("") === this.#box.innerHTML) return;
    this.#box.replaceChildren(...content);
  }
}

declare global {
  interface HTMLElementTagNameMap {
    "purser-balance": PurserBalance;
  }
}

// A page may load this module twice: from Purser, and in its own bundle.
if (globalThis.customElements?.get("purser-balance") === undefined) {
  globalThis.customElements?.define("purser-balance", PurserBalance);
}
