import type { components, operations } from "./generated/api.ts";
import type { TimeField } from "./generated/times.ts";

/** The named schemas of openapi.json, such as `CreditBalance`. */
export type Schemas = components["schemas"];

type Name = keyof operations;
type IsNever<Type> = [Type] extends [never] ? true : false;
type Provided<Type> = IsNever<NonNullable<Type>> extends true ? unknown : NonNullable<Type>;

type PathOf<N extends Name> = Provided<operations[N]["parameters"]["path"]>;
type QueryOf<N extends Name> = Provided<operations[N]["parameters"]["query"]>;
type ContentOf<Message> = Message extends { readonly content: { readonly "application/json": infer Json } }
  ? Json
  : never;
type BodyOf<N extends Name> = N extends Name ? Provided<ContentOf<NonNullable<RequestOf<N>>>> : never;
type RequestOf<N extends Name> = operations[N] extends { readonly requestBody?: infer Body } ? Body : never;

/** A body whose event id is optional, because the client makes one. */
type WithoutEventId<Body> = Body extends { eventId: string } ? Omit<Body, "eventId"> & { eventId?: string } : Body;
type Sent<Body> = Body extends (infer Event)[] ? WithoutEventId<Event>[] : WithoutEventId<Body>;

/** Input types that also accept read-only lists and objects, and dates for times. */
type Readable<Json> = Json extends readonly (infer Element)[]
  ? readonly Readable<Element>[]
  : Json extends object
    ? { readonly [Field in keyof Json]: Readable<Json[Field]> | DateIn<Field, Json[Field]> }
    : Json;
type DateIn<Field, Value> = Field extends TimeField ? (string extends Extract<Value, string> ? Date : never) : never;

/** The input of an operation: the fields of its path, query and body in one object; a list if the body is a list. */
export type Input<N extends Name> = Readable<
  BodyOf<N> extends readonly unknown[] ? Sent<BodyOf<N>> : PathOf<N> & QueryOf<N> & Sent<BodyOf<N>>
>;

/** The fields that the client adds to every response that is an object. They are not enumerable, so JSON and copies do not have them. */
export interface Answer {
  /** Quote the id when you report a problem. */
  readonly requestId: string | null;
  /** Whether this is the response of an earlier call with the same idempotency key. */
  readonly isReplayed: boolean;
  /** The response, whose body has been read. */
  readonly response: Response;
}

/** The result of an operation. A deletion may return an empty result: see `Deleted`. */
export type Output<N extends Name> = (N extends `delete${string}` ? Deleted<Json<N>> : Json<N>) &
  (Json<N> extends object ? Answer : unknown);

/** The deleted object. Empty if the first response was lost and the retry no longer found the object. */
type Deleted<Json> = Partial<Json>;

type Json<N extends Name> = operations[N]["responses"] extends { readonly 200: infer Answer }
  ? Answer extends { readonly content: infer Content }
    ? Content[keyof Content]
    : never
  : never;

export interface CallOptions {
  /** Ends the call, and its waits between retries. */
  readonly signal?: AbortSignal;
  /** The user's JWT from your own sign-in, which replaces the client's `userToken`. */
  readonly userToken?: string;
  /**
   * The header `latest-audit-entry` of the application's audit log, as you read it last. An operation of administration then changes nothing
   * if another entry follows it, and throws `changed_meanwhile`.
   */
  readonly ifLatestAuditEntry?: number;
}

type Arguments<In> = Partial<In> extends In ? [input?: In, options?: CallOptions] : [input: In, options?: CallOptions];

/** Calls Purser once, and again after a fault where a retry is safe and useful. Throws `PurserError`. */
export type Operation<N extends Name> = (...args: Arguments<Input<N>>) => Promise<Output<N>>;

/** The first page; or the entries of all pages: `for await (const entry of purser.listLedgerEntries({ userId }))`. */
export type Pages<Page, Entry> = Promise<Page> & AsyncIterable<Entry>;

type EntryOf<Page> = {
  [Field in keyof Page]: Page[Field] extends readonly (infer Entry)[] ? Entry : never;
}[keyof Page];

export type PagedOperation<N extends Name> = (...args: Arguments<Input<N>>) => Pages<Output<N>, EntryOf<Output<N>>>;

interface Paged {
  readonly nextCursor: unknown;
}

/** A list in pages; or with `eventId` one object of it. */
export interface PagedOrOneOperation<N extends Name> {
  (input: Input<N> & { readonly eventId: string }, options?: CallOptions): Promise<Exclude<Output<N>, Paged>>;
  (input: Input<N>, options?: CallOptions): Pages<Extract<Output<N>, Paged>, EntryOf<Extract<Output<N>, Paged>>>;
}
