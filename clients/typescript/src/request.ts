export type Fields = Readonly<Record<string, unknown>>;

/** How an operation is called, as the generated tables say. */
export interface Described {
  readonly method: string;
  readonly path: string;
  /** The kinds of keys that it takes, apart by blanks: `sk`, `pk`, `rk` and `admin`. Empty: it needs none. */
  readonly keys: string;
  /** The field of its answer that is a page's list. */
  readonly list?: string;
  readonly takesUserToken?: boolean;
  /** Whether its answer is no JSON. */
  readonly answersText?: boolean;
}

export interface Request extends Pick<Described, "keys" | "takesUserToken" | "answersText"> {
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly body: string | null;
  /** Whether a second time does nothing more than the first. */
  readonly isRepeatable: boolean;
}

/** The idempotency id of an operation, which is made where none was given. */
const ID_OF: Readonly<Record<string, readonly [field: string, prefix: string]>> = {
  grantCredits: ["externalRef", ""],
  recordUsageEvent: ["eventId", ""],
  recordUsageEvents: ["eventId", ""],
  commitReservation: ["eventId", ""],
  createReservation: ["reservationId", "res_"],
  createRecurringGrant: ["recurringId", "rec_"],
  adjustBalance: ["adjustmentId", ""],
};

/** Other POSTs that may be sent twice: the second answers as the first did, or changes nothing. */
const REPEATABLE = new Set(
  (
    "refundCredits revokeBalance previewDebit releaseReservation cancelRecurringGrant extendReservation createExportLink " +
    "revokeExportLinks verifyUsers archivePack restorePack settlePayment erasePerson liftErasure"
  ).split(" "),
);

function withId(fields: Fields, [field, prefix]: readonly [string, string]): Fields {
  return fields[field] === undefined ? { ...fields, [field]: prefix + crypto.randomUUID() } : fields;
}

const asText = (value: unknown): string => (value instanceof Date ? value.toISOString() : String(value));

/** The request of an operation. Made once for a call, so that every try has the same ids. */
export function requestOf(name: string, described: Described, input: Fields | readonly Fields[] = {}): Request {
  const { method, path: template, list: _list, ...rest } = described;
  const id = ID_OF[name];
  const isRepeatable = /^(GET|PUT|DELETE)$/.test(method) || id !== undefined || REPEATABLE.has(name);
  const request = { ...rest, operation: name, method, isRepeatable };
  if (Array.isArray(input)) {
    const body = id === undefined ? input : input.map((each) => withId(each, id));
    return { ...request, path: template, body: JSON.stringify(body) };
  }
  // `Array.isArray` does not narrow readonly lists.
  const fields = input as Fields;
  const left = new Map(Object.entries(id === undefined ? fields : withId(fields, id)));
  const path = template.replace(/\{(\w+)\}/g, (_match, field: string) => {
    const value = left.get(field);
    // A URL would take one or two dots for a step in its path.
    if (typeof value !== "string" || /^\.{0,2}$/.test(value)) throw new TypeError(`${name} needs ${field}.`);
    left.delete(field);
    return encodeURIComponent(value);
  });
  const given = [...left].filter(([, value]) => value !== undefined);
  if (method === "GET" || method === "DELETE") {
    const query = new URLSearchParams(given.map(([field, value]) => [field, asText(value)]));
    return { ...request, path: given.length === 0 ? path : `${path}?${query}`, body: null };
  }
  return { ...request, path, body: JSON.stringify(Object.fromEntries(given)) };
}
