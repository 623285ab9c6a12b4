import type { BalanceList } from "../books/credits/list.ts";
import type { PlanOutput } from "../books/usage/plan.ts";
import type { PurserError } from "../errors.ts";
import { Card, SubmitButton } from "./components.tsx";
import { Field, FormContext } from "./fields.tsx";
import type { Form } from "./form.ts";
import { AppForm } from "./form-card.tsx";
import { numberHead, Table } from "./table.tsx";
import { BareAmount, UnitAmount, useUnits } from "./unit-amount.tsx";

const WHY_SKIPPED: Readonly<Record<PlanOutput["skipped"][number]["reason"], string>> = {
  revoked: "it is revoked",
  expired: "it has expired",
  depleted: "it is depleted",
  no_match: "its rules do not match the event",
  wrong_unit: "the event has no quantity in its unit",
  not_needed: "other balances cover the event first",
};

interface PlanProps {
  readonly form: Form;
  readonly list: BalanceList;
  readonly plan: PlanOutput | undefined;
  readonly rejection: PurserError | undefined;
}

/** Shows the preview of a debit, which changes nothing. */
export const Plan = ({ form, list, plan, rejection }: PlanProps) => (
  <Card title="Preview a debit" id="plan">
    <FormContext.Provider value={{ form, rejection }}>
      <AppForm method="get" action="users" hash="plan" fields={{ userId: form.userId ?? "" }}>
        <div class="row">
          <Field label="Event" name="event" placeholder="chat.completed" required />
          <Field label="Model (optional)" name="model" />
        </div>
        <div class="row">
          <Field label="Count" name="count" placeholder="1" />
          <Field label="Tokens" name="tokens" />
          <Field label="Seconds" name="seconds" />
          <Field label="Cents" name="cents" />
          <SubmitButton text="Preview" kind="quiet" />
        </div>
      </AppForm>
    </FormContext.Provider>
    {plan !== undefined && <PlanResult list={list} plan={plan} />}
  </Card>
);

const PlanResult = ({ list, plan }: { list: BalanceList; plan: PlanOutput }) => {
  const inUnit = useUnits();
  const nameOf = (balanceId: string) => {
    const balance = list.balances.find((each) => each.balanceId === balanceId);
    return balance === undefined ? balanceId : `${balance.packName}, ${balance.unit}`;
  };
  const short = Object.entries(plan.uncovered ?? {}).map(([unit, value]) => inUnit(unit, value ?? 0));
  return (
    <>
      <p class={`verdict ${plan.uncovered === null ? "yes" : "no"}`}>
        {plan.uncovered === null ? "✓ Fully covered." : `✗ Not covered: ${short.join(", ")}.`}
      </p>
      <Table
        label="Debits"
        head={["Balance", numberHead("Amount"), numberHead("Remaining")]}
        empty="No debits."
        rows={plan.debits.map((debit) => [
          nameOf(debit.balanceId),
          <span class="num">
            <UnitAmount of={debit.amount} unit={debit.unit} />
          </span>,
          <span class="num">
            <BareAmount of={debit.remaining} unit={debit.unit} />
          </span>,
        ])}
      />
      {plan.skipped.length > 0 && (
        <ul class="soft">
          {plan.skipped.map((skipped) => (
            <li>
              {nameOf(skipped.balanceId)} is not used: {WHY_SKIPPED[skipped.reason]}.
            </li>
          ))}
        </ul>
      )}
    </>
  );
};
