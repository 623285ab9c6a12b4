import { apiDocument } from "./api-document.ts";

/** The parts of a JSON Schema that the page shows. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: boolean | Schema;
  readonly format?: string;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly description?: string;
}

interface Media {
  readonly schema: Schema;
  readonly example?: unknown;
}

export interface Parameter {
  readonly name: string;
  readonly in: "query" | "path" | "header";
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

export interface ApiResponse {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Reference>>;
  readonly content?: Readonly<Record<string, Media>>;
}

interface Reference {
  readonly $ref: string;
  /** Replaces the description of the schema that `$ref` names. */
  readonly description?: string;
}

export interface DescribedOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly (Parameter | Reference)[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, ApiResponse | Reference>>;
}

interface ApiReference {
  readonly info: { readonly title: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly responses: Readonly<Record<string, ApiResponse>>;
    readonly parameters: Readonly<Record<string, Parameter>>;
    readonly headers: Readonly<Record<string, { readonly description: string }>>;
  };
}

/** Returns the OpenAPI document in the type that this page reads. */
export function readReference(): ApiReference {
  // describe.ts writes the document, so the parts that are optional in OpenAPI's types are present.
  return apiDocument() as unknown as ApiReference;
}

const lastPart = (reference: Reference): string => reference.$ref.slice(reference.$ref.lastIndexOf("/") + 1);

/** Returns the name of the component that a schema refers to, or null for an inline schema. */
export const schemaName = (schema: Schema): string | null =>
  schema.$ref === undefined ? null : lastPart({ $ref: schema.$ref });

export function parametersOf(operation: DescribedOperation): readonly Parameter[] {
  const { parameters } = readReference().components;
  return (operation.parameters ?? []).flatMap((given) =>
    "$ref" in given ? (parameters[lastPart(given)] ?? []) : given,
  );
}

/** Returns responses by status, in rising order. */
export function responsesOf(
  operation: DescribedOperation,
): readonly (readonly [status: string, response: ApiResponse])[] {
  const { responses } = readReference().components;
  return Object.entries(operation.responses).flatMap(([status, given]) => {
    if (!("$ref" in given)) return [[status, given] as const];
    const shared = responses[lastPart(given)];
    return shared === undefined
      ? []
      : [[status, { ...shared, description: given.description ?? shared.description }] as const];
  });
}

export interface ListedOperation {
  readonly method: string;
  readonly path: string;
  readonly operation: DescribedOperation;
}

/** Returns the operations of a tag, in the document's order. */
export function operationsOf(tag: string): readonly ListedOperation[] {
  return Object.entries(readReference().paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([, operation]) => operation.tags.includes(tag))
      .map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
}

/** The headers of the examples, with shell variables for keys and tokens. */
const HEADERS: Readonly<Record<string, string>> = {
  secretKey: "Authorization: Bearer $SECRET_KEY",
  publishableKey: "Authorization: Bearer $PUBLISHABLE_KEY",
  adminToken: "Authorization: Bearer $ADMIN_TOKEN",
};

const EXAMPLES: Readonly<Record<string, string>> = { userId: "user_42", token: "$TOKEN" };

/** Returns the shell variable for a path parameter: `$PACK_ID` for `{packId}`. The reader sets it. */
const variable = (name: string): string => `$${name.replace(/[A-Z]/g, "_$&").toUpperCase()}`;

const pair = ({ name }: Parameter): string => `${name}=${EXAMPLES[name] ?? variable(name)}`;

const singleQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns a command to paste into a shell, after its variables are set. */
export function curlOf(origin: string, method: string, path: string, operation: DescribedOperation): string {
  const query = parametersOf(operation).filter((parameter) => parameter.in === "query" && parameter.required === true);
  const filled = path.replace(/\{(\w+)\}/g, (_match, name: string) => variable(name));
  const url = `${origin}${filled}${query.length === 0 ? "" : `?${query.map(pair).join("&")}`}`;
  const lines = [`curl ${method === "GET" || method === "POST" ? "" : `-X ${method} `}"${url}"`];
  const [security = {}] = operation.security;
  for (const scheme of Object.keys(security)) lines.push(`-H "${HEADERS[scheme]}"`);
  const media = operation.requestBody?.content["application/json"];
  if (media !== undefined) {
    lines.push('-H "Content-Type: application/json"');
    lines.push(`-d ${singleQuoted(JSON.stringify(media.example, null, 2)).replaceAll("\n", "\n  ")}`);
  } else if (method === "POST") lines[0] = `curl -X POST "${url}"`;
  return lines.join(" \\\n  ");
}
