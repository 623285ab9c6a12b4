import type { Context, Hono } from "hono";
import type * as z from "zod";
import { claimedIds } from "../auth/end-user.ts";
import type { Outcome } from "../books/ledger/decision.ts";
import type { ErrorCode } from "../errors.ts";
import { readBody, readNoFields } from "../http/body.ts";
import type { AppEnv } from "../http/factory.ts";
import { noFields } from "../http/fields.ts";
import type { ObjectSchema } from "../http/lazy.ts";
import { validate, validateBodyBy } from "../http/validate.ts";
import { once } from "../lib/once.ts";
// It makes `WITH_REFERENCE` known before any operation.
import "../lib/words.ts";
import type { Access } from "./access.ts";
import { BodyByType, Unread } from "./body-by-type.ts";

/** A schema of a request. It is lazy, so that the Worker starts without building it. */
type PartSchema = ObjectSchema | Unread;
type BodySchema = PartSchema | BodyByType<unknown>;
type InputOf<Schema> =
  Schema extends BodyByType<infer Value> ? Value : Schema extends z.ZodType ? z.output<Schema> : undefined;

/** The validated arguments of a request. A part that the operation does not declare is undefined. */
export interface Input<Params, Query, Body> {
  readonly params: InputOf<Params>;
  readonly query: InputOf<Query>;
  readonly body: InputOf<Body>;
}

/** The request as a handler may know it besides its arguments. */
export interface HandledRequest {
  readonly origin: string;
  readonly requestId: string;
  /** Sets a header of the response. */
  readonly setHeader: (name: string, value: string) => void;
  /** Makes a response that is not the declared output. A `new Response` would lack the headers that every response has. */
  readonly respond: (body: string, headers: Record<string, string>) => Response;
  /** The user of the end-user token, once a query has verified it. Undefined for other keys. */
  readonly endUserId: () => string | undefined;
  /** The texts in the end-user token, before a query has verified it. One of them names its user. */
  readonly claimedIds: () => readonly string[];
}

type Method = "get" | "post" | "put" | "patch" | "delete";

/** Everything about an operation: its route, its validation and its reference. No other list repeats any of it. */
export interface Declaration<Ctx, Params, Query, Body, Output extends z.ZodType, Replayable extends boolean> {
  /** Unique. Generated clients use it as the name of a method: `grantCredits`. */
  readonly id: string;
  readonly method: Method;
  /** With parameters in braces: `/api/v1/admin/apps/{appId}/keys`. */
  readonly path: string;
  /** Other paths of the same operation, which older clients call. */
  readonly aliases?: readonly string[];
  /** Whether its paths may end with a slash. */
  readonly maySlash?: true;
  readonly tag: string;
  readonly access: Access<Ctx, InputOf<Params>>;
  readonly params?: Params;
  readonly query?: Query;
  /** A POST without it takes an empty body or `{}`. See also `byType` and `unread`. */
  readonly body?: Body;
  /** Lazy, so that the Worker starts without building it. */
  readonly output: () => Output;
  /** The media type of the response, if it is not JSON. The handler then returns a `Response`. */
  readonly outputType?: string;
  /** Other media types of the response, which a `Response` of the handler may have. */
  readonly alternatives?: Readonly<Record<string, { readonly schema: z.ZodType; readonly example: unknown }>>;
  /** The operation's own codes. Codes that follow from its access and its arguments are added. */
  readonly errors?: readonly ErrorCode[];
  /** Whether `idempotent-replayed` marks a repeat. The handler then returns an `Outcome`. */
  readonly replayable?: Replayable;
  /**
   * Set for a POST or PATCH whose repeat has no further effect, so that a client may send it again. With a `field`, that is so for the same
   * value of it, which the client makes, with this prefix. GET, PUT and DELETE are always idempotent.
   */
  readonly idempotent?: true | { readonly field: string; readonly prefix?: string };
  /** Whether the response may have a `purser-warning` (W16), as the responses of operations with a query may in any case. */
  readonly warns?: true;
  /** The response's own headers, each with its meaning. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Whether it writes for a user id, which may be erased (E4). The write is then rejected with a code, or silently dropped, as
   * analytics are.
   */
  readonly writesForId?: "rejected" | "silent";
  readonly summary: string;
  /** CommonMark. */
  readonly description: string;
  /** A sentence about the response of a success. */
  readonly returns: string;
  /** Checked against the schemas by a test. `bodies` has the examples of a body's other media types. */
  readonly example: () => {
    readonly body?: unknown;
    readonly bodies?: Readonly<Record<string, unknown>>;
    readonly output: unknown;
  };
  readonly handler: (
    ctx: Ctx,
    input: Input<Params, Query, Body>,
    request: HandledRequest,
  ) => Answer<Response | (Replayable extends true ? Outcome<z.output<Output>> : z.output<Output>)>;
}

type Answer<Value> = Value | Promise<Value>;

/** An operation as the app and the reference read it. The types of its arguments are settled when it is declared. */
export type Operation = Omit<
  // biome-ignore lint/suspicious/noExplicitAny: a list holds operations of all types, and `mount` alone calls a handler.
  Declaration<any, PartSchema | undefined, PartSchema | undefined, BodySchema | undefined, z.ZodType, boolean>,
  "handler" | "access"
> & { readonly access: Omit<Access<unknown>, "call">; readonly mount: (app: Hono<AppEnv>) => void };

/**
 * Declares an operation, the only way to serve something. A request passes in W8's order: the address's share, the key and its kind
 * (`access`), size, shape of the arguments, whose token it is, then the handler.
 */
export function operation<
  Ctx,
  Output extends z.ZodType,
  Params extends PartSchema | undefined = undefined,
  Query extends PartSchema | undefined = undefined,
  Body extends BodySchema | undefined = undefined,
  Replayable extends boolean = false,
>(declared: Declaration<Ctx, Params, Query, Body, Output, Replayable>): Operation {
  const { handler, ...described } = declared;
  const { access, params, query, body, replayable } = declared;
  const answer = async (c: Context<AppEnv>): Promise<Response> => {
    const valid = (target: "param" | "query" | "json", schema: unknown) =>
      // Hono keeps validated data by target. Its types know only the routes that are chained.
      schema === undefined || schema instanceof Unread ? undefined : c.req.valid(target as never);
    const input = { params: valid("param", params), query: valid("query", query), body: valid("json", body) } as Input<
      Params,
      Query,
      Body
    >;
    const request = {
      origin: new URL(c.req.url).origin,
      requestId: c.var.requestId,
      setHeader: (name: string, value: string) => c.header(name, value),
      respond: (text: string, headers: Record<string, string>) => c.body(text, 200, headers),
      endUserId: () => c.get("endUser")?.userId,
      claimedIds: () => claimedIds(c.req.header("x-user-token")),
    };
    const result = await access.call(c, input, (ctx) => handler(ctx, input, request));
    if (result instanceof Response) return result;
    if (replayable !== true) return c.json(result as object);
    const { output, replayed } = result as Outcome<object>;
    if (replayed) c.header("idempotent-replayed", "true");
    return c.json(output);
  };
  const steps = once(() => {
    const { readsBody, checksBody } = bodyMiddleware(declared);
    // The size is checked before the shape of any argument (W8). zValidator types its middleware for any environment.
    return [
      ...access.enter,
      ...readsBody,
      ...(params === undefined || params instanceof Unread ? [] : [validate("param", params)]),
      ...(query === undefined || query instanceof Unread ? [] : [validate("query", query)]),
      ...checksBody,
      answer,
    ] as Middleware[];
  });
  return { ...described, mount: (app) => mount(app, described, (c) => runMiddleware(c, steps(), 0)) };
}

/** Returns the middleware that reads the body, and that which validates it. A POST without fields also checks its body. */
function bodyMiddleware({ method, body }: { readonly method: Method; readonly body?: BodySchema | undefined }) {
  if (body instanceof Unread) return { readsBody: [], checksBody: [] };
  if (body instanceof BodyByType) return { readsBody: [readBody], checksBody: [validateBodyBy(body.read)] };
  if (body !== undefined) return { readsBody: [readBody], checksBody: [validate("json", body)] };
  return method === "post"
    ? { readsBody: [readNoFields], checksBody: [validate("json", noFields)] }
    : { readsBody: [], checksBody: [] };
}

type Middleware = (c: Context<AppEnv>, next: () => Promise<void>) => Promise<Response | undefined>;

/**
 * Takes the steps of a request. A step may do something after the next one, also when that throws. Hono itself would need a route for
 * each step of each operation when the Worker starts, and would turn an error into a response before an earlier step sees it.
 */
async function runMiddleware(c: Context<AppEnv>, steps: readonly Middleware[], at: number): Promise<Response> {
  const response = await steps[at]?.(c, async () => void (await runMiddleware(c, steps, at + 1)));
  if (response !== undefined && !c.finalized) c.res = response;
  return c.res;
}

function mount(
  app: Hono<AppEnv>,
  { method, path, aliases, maySlash, access }: Omit<Operation, "mount">,
  handler: (c: Context<AppEnv>) => Promise<Response>,
): void {
  const routes = [path, ...(aliases ?? [])]
    .map((each) => each.replace(/\{(\w+)\}/g, ":$1"))
    .flatMap((each) => (maySlash === true ? [each, `${each}/`] : [each]));
  if (access.around !== undefined) for (const route of routes) app.use(route, access.around);
  app.on(method.toUpperCase(), routes, handler);
}
