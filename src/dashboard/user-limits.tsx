import { useContext } from "hono/jsx";
import { setOverrideInput } from "../api/usage-limits/set-own-usage-limit.ts";
import { doubleOf } from "../books/amounts/amount.ts";
import type { UserLimitOutput } from "../books/limits/read-user-limits.ts";
import { removeOverride, setOverride } from "../books/limits/user-limits.ts";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { SubmitButton } from "./components.tsx";
import { Field } from "./fields.tsx";
import { numberField, type PageContext, parseForm, useRequest } from "./form.ts";
import { AppForm } from "./form-card.tsx";
import { queryString, Time } from "./format.tsx";
import { toUser } from "./links.tsx";
import { TableCard } from "./table.tsx";
import { PartOfAmount, UnitAmount, UnitsContext, unitText } from "./unit-amount.tsx";

export const OVERRIDE_PATH = "users/limit";
const PERIODS = { minute: "this minute", hour: "this hour", day: "today", week: "this week", month: "this month" };

interface UserLimitsProps {
  readonly userId: string;
  readonly limits: readonly UserLimitOutput[];
  /** Why the form of an override was rejected. */
  readonly rejection: PurserError | undefined;
}

/** Shows how much of each limit a user has used, with a bar, and a form that sets or lifts the user's override. */
export const UserLimits = ({ userId, limits, rejection }: UserLimitsProps) =>
  limits.length === 0 ? null : (
    <TableCard
      title="Usage limits"
      id="limits"
      csv="usage-limits"
      head={["Limit", "Used", "Share", "Resets", ""]}
      rows={limits.map((limit) => [
        limit.name,
        <>
          {limit.amount === null ? (
            <UnitAmount of={limit.used} unit={limit.unit} />
          ) : (
            <PartOfAmount part={limit.used} of={limit.amount} unit={limit.unit} />
          )}{" "}
          {PERIODS[limit.every]}
          {limit.amount === null ? ", no limit" : ""}
        </>,
        <LimitBar limit={limit} />,
        <Time at={limit.resetsAt} />,
        <OverrideForm userId={userId} limit={limit} rejection={rejection} />,
      ])}
      empty=""
    />
  );

const LimitBar = ({ limit: { amount, used, name } }: { limit: UserLimitOutput }) =>
  amount === null ? null : (
    <progress
      max={amount === 0 ? 1 : amount}
      value={amount === 0 ? 1 : Math.min(doubleOf(used), doubleOf(amount))}
      aria-label={name}
    />
  );

type OverrideProps = Omit<UserLimitsProps, "limits"> & { readonly limit: UserLimitOutput };

/** Shows the form of an override. One that was rejected is open, as it was typed. */
const OverrideForm = ({ userId, limit: { limitId, name, unit }, rejection }: OverrideProps) => {
  const { form = {} } = useRequest().var;
  const isRejected = rejection !== undefined && form.limitId === limitId;
  return (
    <details open={isRejected}>
      <summary>Override</summary>
      <AppForm
        action={`${OVERRIDE_PATH}${queryString({ userId })}`}
        hash="limits"
        class="row"
        fields={{ userId, limitId }}
      >
        <Field
          label={`Amount of ${name} for this user (${unitText(useContext(UnitsContext), unit)})`}
          name="amount"
          value={isRejected ? form.amount : undefined}
          rejection={isRejected ? rejection : undefined}
        />
        <SubmitButton text="Set" kind="small" name="act" value="set" />
        <SubmitButton text="No limit" kind="small" name="act" value="unlimited" />
        <SubmitButton text="Lift the override" kind="small" name="act" value="lift" />
      </AppForm>
    </details>
  );
};

/** Sets or lifts a user's own amount of a limit. Returns the path of the next page. */
export async function actOnOverride(c: PageContext) {
  const { form } = c.var;
  const { userId = "", limitId = "" } = form;
  if (form.act === "lift") {
    await callVerb(c, (ctx) => removeOverride(ctx, limitId, { userId }));
    return toUser(form, "limit-lifted");
  }
  const amount = form.act === "unlimited" ? null : numberField(form, "amount");
  const input = parseForm(setOverrideInput, { userId, amount });
  await callVerb(c, (ctx) => setOverride(ctx, limitId, input));
  return toUser(form, "limit-set");
}
