import type { PurserError } from "../errors.ts";
import { MESSAGE_TYPES } from "../webhooks/message.ts";
import { Field } from "./components.tsx";
import type { Form } from "./form.ts";

/** The types that an endpoint can choose. Every endpoint receives the test message. */
const CHOICES = MESSAGE_TYPES.filter((type) => type !== "purser.test");
const isType = (text: string): boolean => CHOICES.some((type) => type === text);
const fieldOf = (type: string): string => `type ${type}`;

/** Returns the chosen types: ticked, or typed with spaces or commas between them. Null means all optional types. */
export function typesField(form: Form): string[] | null {
  if (form.all === "yes") return null;
  const typed = (form.types ?? "").split(/[\s,]+/).filter((text) => text !== "");
  const ticked = CHOICES.filter((type) => form[fieldOf(type)] === "yes" && !typed.includes(type));
  const types = [...ticked, ...typed];
  return types.length === 0 ? null : types;
}

/** Returns whether two choices are equal, in any order. */
export const sameTypes = (a: readonly string[] | null, b: readonly string[] | null): boolean =>
  a === null || b === null ? a === b : JSON.stringify([...a].sort()) === JSON.stringify([...b].sort());

/** Returns the form's fields for the types of an endpoint. */
export const fieldsOfTypes = (types: readonly string[] | null): Form => ({
  all: types === null ? "yes" : "no",
  types: (types ?? []).filter((type) => !isType(type)).join(" "),
  ...Object.fromEntries((types ?? []).filter(isType).map((type) => [fieldOf(type), "yes"])),
});

/** Shows the fields that a new endpoint and a change share. */
export const EndpointFields = ({ fields, refusal }: { fields: Form; refusal: PurserError | undefined }) => (
  <>
    <div class="row">
      <Field
        label="URL"
        name="url"
        value={fields.url}
        refusal={refusal}
        placeholder="https://example.com/webhooks"
        required
      />
      <Field label="Description (optional)" name="description" value={fields.description} refusal={refusal} />
    </div>
    <fieldset>
      <legend>Types</legend>
      <div class="kinds">
        <label>
          <input type="radio" name="all" value="yes" checked={fields.all !== "no"} /> All, except{" "}
          <code>usage.recorded</code>
        </label>
        <label>
          <input type="radio" name="all" value="no" checked={fields.all === "no"} /> Only those that I choose
        </label>
      </div>
      <div class="when-chosen">
        <div class="checks">
          {CHOICES.map((type) => (
            <label>
              <input type="checkbox" name={fieldOf(type)} value="yes" checked={fields[fieldOf(type)] === "yes"} />
              <code>{type}</code>
            </label>
          ))}
        </div>
        <Field
          label="More, by a glob (optional)"
          name="types"
          value={fields.types}
          refusal={refusal}
          placeholder="credits.*"
        />
      </div>
    </fieldset>
  </>
);
