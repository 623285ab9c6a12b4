import type { components, operations } from "./generated/api.ts";
import type { TimeField } from "./generated/times.ts";

/** The shapes that openapi.json names, such as `CreditBalance`. */
export type Schemas = components["schemas"];

type Name = keyof operations;
type IsNever<Type> = [Type] extends [never] ? true : false;
type Given<Type> = IsNever<NonNullable<Type>> extends true ? unknown : NonNullable<Type>;

type PathOf<N extends Name> = Given<operations[N]["parameters"]["path"]>;
type QueryOf<N extends Name> = Given<operations[N]["parameters"]["query"]>;
type ContentOf<Message> = Message extends { readonly content: { readonly "application/json": infer Json } }
  ? Json
  : never;
type BodyOf<N extends Name> = N extends Name ? Given<ContentOf<NonNullable<RequestOf<N>>>> : never;
type RequestOf<N extends Name> = operations[N] extends { readonly requestBody?: infer Body } ? Body : never;

/** The event's id may be left out: the client makes one. */
type WithoutEventId<Body> = Body extends { eventId: string } ? Omit<Body, "eventId"> & { eventId?: string } : Body;
type Sent<Body> = Body extends (infer Event)[] ? WithoutEventId<Event>[] : WithoutEventId<Body>;

/** Lists and objects that are sent may be read-only, and times may be dates. */
type Readable<Json> = Json extends readonly (infer Element)[]
  ? readonly Readable<Element>[]
  : Json extends object
    ? { readonly [Field in keyof Json]: Readable<Json[Field]> | DateIn<Field, Json[Field]> }
    : Json;
type DateIn<Field, Value> = Field extends TimeField ? (string extends Extract<Value, string> ? Date : never) : never;

/** What an operation takes: the fields of its path, its query and its body in one object; a list where the body is one. */
export type Input<N extends Name> = Readable<
  BodyOf<N> extends readonly unknown[] ? Sent<BodyOf<N>> : PathOf<N> & QueryOf<N> & Sent<BodyOf<N>>
>;

/** What every answer that is an object carries beside its own fields. It is not enumerable, so JSON and copies do not have it. */
export interface Answer {
  /** Tell it when you ask about a call. */
  readonly requestId: string | null;
  /** Whether it is the answer of an earlier call with the same idempotency key. */
  readonly isReplayed: boolean;
  /** Its body is read. */
  readonly response: Response;
}

/** What an operation answers. What deletes may answer nothing: see `Deleted`. */
export type Output<N extends Name> = (N extends `delete${string}` ? Deleted<Json<N>> : Json<N>) &
  (Json<N> extends object ? Answer : unknown);

/** What was deleted, as it was. Empty where the first answer was lost, and the second try found that it was gone. */
type Deleted<Json> = Partial<Json>;

type Json<N extends Name> = operations[N]["responses"] extends { readonly 200: infer Answer }
  ? Answer extends { readonly content: infer Content }
    ? Content[keyof Content]
    : never
  : never;

export interface CallOptions {
  /** Ends the call, and its waiting between tries. */
  readonly signal?: AbortSignal;
  /** The user's JWT from your own sign-in, in place of the client's `userToken`. */
  readonly userToken?: string;
}

type Arguments<Taken> =
  Partial<Taken> extends Taken ? [input?: Taken, options?: CallOptions] : [input: Taken, options?: CallOptions];

/** Calls Purser once, or again after a fault that a repeat mends. Throws `PurserError`. */
export type Operation<N extends Name> = (...args: Arguments<Input<N>>) => Promise<Output<N>>;

/** The first page; or all entries of all pages: `for await (const entry of purser.listLedgerEntries({ userId }))`. */
export type Pages<Page, Entry> = Promise<Page> & AsyncIterable<Entry>;

type EntryOf<Page> = {
  [Field in keyof Page]: Page[Field] extends readonly (infer Entry)[] ? Entry : never;
}[keyof Page];

export type PagedOperation<N extends Name> = (...args: Arguments<Input<N>>) => Pages<Output<N>, EntryOf<Output<N>>>;
