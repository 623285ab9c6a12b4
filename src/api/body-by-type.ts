import type * as z from "zod";

/** A body whose media type decides how it is read. */
export class BodyByType<Value> {
  /** By media type, for the reference. The first is that of the usual type. */
  readonly schemas: () => Readonly<Record<string, z.ZodType>>;
  /** Returns the input. `sent` is the parsed JSON. Throws `invalid_request`. */
  readonly read: (contentType: string | undefined, sent: unknown) => Value;

  constructor(schemas: BodyByType<Value>["schemas"], read: BodyByType<Value>["read"]) {
    this.schemas = schemas;
    this.read = read;
  }
}

/** A body, a query or parameters that the handler reads, because another protocol than Purser's says how they are read. */
export class Unread {
  /** For the reference. */
  readonly schema: () => z.ZodType;

  constructor(schema: () => z.ZodType) {
    this.schema = schema;
  }
}
