import { expect, it } from "vitest";
import * as z from "zod";
import { rejectionOfIssues } from "../../src/http/issue-text.ts";

/** The rejection of `value` by `schema`, as a caller reads it. */
function rejectionOf(schema: z.ZodType, value: unknown): { param: string | undefined; message: string } {
  const { error } = schema.safeParse(value);
  if (error === undefined) throw new Error("The schema accepts this value.");
  const { param, message } = rejectionOfIssues(error.issues, "body");
  return { param, message };
}

const secret = "alice@example.com";

it.each<[z.ZodType, unknown, string]>([
  [z.string(), undefined, "is required"],
  [z.string(), 7, "must be a string, in quotes"],
  [z.string(), null, "must be a string, not null: omit an optional field instead"],
  [z.number(), secret, "must be a number"],
  [z.number(), "7", "must be a number, without quotes"],
  [z.number(), Number.POSITIVE_INFINITY, "must be a number that a double can represent"],
  [z.int(), 1.5, "must be a whole number"],
  [z.boolean(), secret, "must be true or false"],
  [z.boolean(), "false", "must be true or false, without quotes"],
  [z.array(z.string()), { secret }, "must be a list, not an object"],
  [z.strictObject({}), [secret], "must be an object, not a list"],
  [z.strictObject({}), `{"secret":"${secret}"}`, "must be an object, not a string that holds JSON"],
  [z.record(z.string(), z.string()), secret, "must be an object"],
  [z.enum(["a", "b"]), secret, "must be a or b"],
  [z.enum(["alpha", "beta"]), "Alpha", "must be alpha or beta"],
  [z.literal(0), secret, "must be 0"],
  [z.enum(["a"]), undefined, "is required"],
  [z.string().min(1), "", "must not be empty"],
  [z.string().min(2), "x", "must have at least 2 characters"],
  [z.string().max(3), secret, "must have at most 3 characters"],
  [z.array(z.string()).max(1), [secret, secret], "must have at most 1 element"],
  [z.number().min(1).max(9), 0, "must be at least 1"],
  [z.number().min(1).max(9), 10, "must be at most 9"],
  [z.number().positive(), 0, "must be more than 0"],
  [z.number().multipleOf(5), 6, "must be a multiple of 5"],
  [z.string().regex(/^x$/), secret, "is malformed"],
  [z.url(), secret, "is malformed"],
  [z.string().refine(() => false), secret, "is malformed"],
  [z.string().refine(() => false, "must be kind"), secret, "must be kind"],
  [z.union([z.string(), z.number()]), true, "does not have any of the allowed forms"],
])("the message about a malformed argument says “field $2” (case %#)", (schema, value, words) => {
  expect(rejectionOf(z.object({ field: schema }), { field: value })).toEqual({
    param: "field",
    message: `field ${words}.`,
  });
});

it("the message about a malformed argument names the argument's position in lists, objects and unions", () => {
  const item = z.strictObject({ amount: z.number() });
  const list = z.strictObject({ items: z.array(item) });
  expect(rejectionOf(list, { items: [{ amount: 1 }, { amount: secret }] }).param).toBe("items[1].amount");
  expect(rejectionOf(list, { items: [{ amount: 1, [secret]: 1 }] }).param).toBe(`items[0].${secret}`);
  expect(rejectionOf(z.union([z.string(), list]), { items: [{}] }).param).toBe("items[0].amount");
  expect(rejectionOf(list, 7)).toEqual({ param: "body", message: "body must be an object." });
});

it("the message about a name that a record does not take says why", () => {
  const record = z.object({ field: z.record(z.string().regex(/^x$/, "must be x"), z.number()) });
  expect(rejectionOf(record, { field: { a: 1 } })).toEqual({ param: "field.a", message: "field.a must be x." });
});

it("the message about a malformed argument shortens the name of an unknown field", () => {
  const { param, message } = rejectionOf(z.strictObject({}), { ["x".repeat(100_000)]: 1 });
  expect(param).toHaveLength(200);
  expect(message).toBe("This field is unknown: no fields are allowed here.");
  expect(rejectionOf(z.strictObject({}), { [`${"x".repeat(199)}🦄`]: 1 }).param?.isWellFormed()).toBe(true);
});

it("the message about a malformed argument suggests a field of the schema for an unknown field, in lists and unions too", () => {
  const quantities = z.strictObject({ tokens: z.number().optional() }).meta({ wrongNames: { "/model": "model" } });
  const event = z
    .strictObject({ userId: z.string(), quantities: quantities.prefault({}) })
    .meta({ wrongNames: { userId: "customer", "quantities.tokens": "tokens" } });
  const schema = z.union([z.strictObject({ items: z.array(event) }), z.number()]);
  const rejectionOfItem = (fields: object) => rejectionOf(schema, { items: [fields] });
  expect(rejectionOfItem({ user_id: "ana" })).toEqual({
    param: "items[0].user_id",
    message: "items[0].user_id is unknown: write `userId`.",
  });
  expect(rejectionOfItem({ customer: "ana" }).message).toBe("items[0].customer is unknown: write `userId`.");
  expect(rejectionOfItem({ userId: "ana", tokens: 1 }).message).toBe(
    "items[0].tokens is unknown: write it into `quantities`, as `tokens`.",
  );
  expect(rejectionOfItem({ userId: "ana", quantities: { model: "a" } }).message).toBe(
    "items[0].quantities.model is unknown: write it at the top level, as `model`.",
  );
  expect(rejectionOfItem({ userId: "ana", quantities: { colour: 1 } }).message).toBe(
    "items[0].quantities.colour is unknown: the fields are `tokens`.",
  );
  expect(rejectionOfItem({ event: { userId: "ana" } }).message).toBe(
    "items[0].event is unknown: send the fields in it directly, without this field around them.",
  );
});

it("the message about a malformed argument never repeats the value", () => {
  const shapes = [
    z.number(),
    z.enum(["a"]),
    z.string().max(1),
    z.url(),
    z.union([z.number(), z.boolean()]),
    z.literal(1),
  ];
  for (const shape of shapes) expect(rejectionOf(shape, secret).message).not.toContain(secret);
});
