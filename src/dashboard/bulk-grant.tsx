import { grantInput } from "../api/credits/grant-credits.ts";
import { grantPack, previewGrant } from "../books/credits/grant.ts";
import { usersGrantedBefore } from "../books/credits/granted-before.ts";
import { namedUsers } from "../books/credits/users.ts";
import { invalid, type PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { SubmitButton, Tag } from "./components.tsx";
import { confirmPage, ReasonField, requireReason, warnAboutAmount } from "./confirm.tsx";
import { Field, Hidden, LongText } from "./fields.tsx";
import {
  catchRejection,
  createDashboardRoutes,
  type Form,
  numberField,
  type PageContext,
  parseForm,
  textField,
} from "./form.ts";
import { AppForm, assertSure, FormCard } from "./form-card.tsx";
import { amountText } from "./format.tsx";
import { listOfferedPacks, PackFields, TotalAfter } from "./grant.tsx";
import { page } from "./layout.tsx";
import { UserLink } from "./links.tsx";
import { Table } from "./table.tsx";
import { AmountList } from "./unit-amount.tsx";

const BULK_PATH = "users/bulk-grant";
/** The most users of one run. A run takes some three queries for each. */
const BULK_USERS_MAX = 200;
/** How many grants run at the same time. */
const AT_ONCE = 4;

/** Returns the first field of each line of a pasted list or a CSV file. */
const firstFields = (text: string): string[] =>
  text.split(/\r\n|\r|\n/).map((line) => {
    const quoted = /^"((?:[^"]|"")*)"/.exec(line)?.[1];
    return quoted?.replaceAll('""', '"') ?? line.split(/[,;\t]/)[0]?.trim() ?? "";
  });

/** Returns the user ids of a pasted list or a CSV file: the first field of each line, each id once. */
export function parseUserIds(text: string): string[] {
  const lines = firstFields(text);
  const ids = [...new Set(lines)].filter((id) => id !== "");
  // The first line of a CSV file may name its columns.
  return /^(user_?id|distinct_?id|id)$/i.test(ids[0] ?? "") ? ids.slice(1) : ids;
}

function readBulk(form: Form) {
  const userIds = parseUserIds(form.users ?? "");
  if (userIds.length === 0) throw invalid("users", "has no user id: write one in each line");
  if (userIds.length > BULK_USERS_MAX) {
    throw invalid(
      "users",
      `has ${amountText(userIds.length)} users. At most ${BULK_USERS_MAX} at once: split the list`,
    );
  }
  const reference = textField(form, "ref");
  if (reference === undefined)
    throw invalid("externalRef", "is required: with it, nobody is granted twice if you send the list again");
  const notes = requireReason(form, "notes");
  return userIds.map((userId) => {
    const read = grantInput.safeParse({ userId });
    if (read.error?.issues.some(({ path }) => path[0] === "userId")) {
      const line = firstFields(form.users ?? "").indexOf(userId) + 1;
      throw invalid("users", `has an id that no user can have, in line ${line}`);
    }
    return parseForm(grantInput, {
      ...{ userId, packId: form.packId, quantity: numberField(form, "quantity"), source: "manual" },
      ...{ notes, externalRef: reference },
    });
  });
}

async function bulkForm(c: PageContext, form: Form, rejection?: PurserError) {
  const packs = await listOfferedPacks(c);
  return page(
    c,
    { title: "Grant to many users", section: "users", rejection },
    <FormCard
      action={`${BULK_PATH}/preview`}
      about="Each user gets the pack once under the reference. The same list with the same reference again grants nothing twice, so an interrupted run can be repeated."
      form={{ ref: c.var.root.newId("bulk:"), ...form }}
      rejection={rejection}
      button="Preview"
    >
      <LongText
        label={`Users (one id in each line, or a CSV file's first column; at most ${BULK_USERS_MAX})`}
        name="users"
        required
      />
      <label class="js wide">
        From a file <input type="file" accept=".csv,.txt,text/csv,text/plain" data-fill="users" />
      </label>
      <PackFields packs={packs} quantityHint="for each user, only for packs without items" />
      <Field label="Reference" name="ref" param="externalRef" required />
      <ReasonField name="notes" />
    </FormCard>,
  );
}

const keptFields = ({ users = "", packId = "", quantity = "", ref = "", notes = "" }: Form) => ({
  ...{ users, packId, quantity, ref, notes },
});

async function previewBulk(c: PageContext, refused?: PurserError) {
  const { form, ctx } = c.var;
  const read = await catchRejection(async () => {
    const grants = readBulk(form);
    const [first] = grants;
    if (first === undefined) throw invalid("users", "has no user id");
    const userIds = grants.map(({ userId }) => userId);
    const { packId, externalRef = "" } = first;
    const [known, before] = await Promise.all([
      namedUsers(ctx, userIds),
      usersGrantedBefore(ctx, { userIds, packId, externalRef }),
    ]);
    const fresh = grants.filter(({ userId }) => !before.has(userId));
    const plan = await previewGrant(ctx, fresh[0] ?? first);
    return { grants, plan, before, freshCount: fresh.length, known: new Map(known.map((user) => [user.userId, user])) };
  });
  if (read.result === undefined) return bulkForm(c, form, read.rejection);
  const { grants, plan, known, before, freshCount } = read.result;
  const unknown = grants.filter(({ userId }) => !known.has(userId));
  const warnings = [
    ...(unknown.length === 0
      ? []
      : [
          `${amountText(unknown.length)} of these users ${unknown.length === 1 ? "does" : "do"} not exist yet. The grant creates them.`,
        ]),
    ...("amounts" in plan
      ? plan.amounts.flatMap(({ unit, amount }) => warnAboutAmount(unit, amount * freshCount))
      : []),
  ];
  return confirmPage(
    c,
    {
      title: "Confirm grants",
      action: BULK_PATH,
      fields: keptFields(form),
      button: `Grant to ${amountText(grants.length)} users`,
      cancel: BULK_PATH,
      warnings,
      rejection: refused,
      facts: [
        ["Users", amountText(grants.length)],
        before.size > 0 && ["Granted before", `${amountText(before.size)} of them, who get nothing more`],
        ["Pack", plan.packName],
        ["For each user", <AmountList of={plan.amounts} />],
        [
          "In all",
          <b>
            {freshCount === 0 ? (
              "nothing"
            ) : (
              <AmountList of={plan.amounts.map(({ unit, amount }) => ({ unit, amount: amount * freshCount }))} />
            )}
          </b>,
        ],
        ["Reference", <code>{form.ref}</code>],
      ],
    },
    <Table
      label="Users"
      head={["User", "Before", "Total afterwards"]}
      empty=""
      rows={grants.map(({ userId }) => {
        const user = known.get(userId);
        const totals = { units: user?.remaining ?? [], isPartial: user?.isPartial === true };
        return [
          <UserLink id={userId} />,
          before.has(userId) ? "granted before" : user === undefined ? "new user" : "known",
          before.has(userId) ? "unchanged" : <TotalAfter plan={plan} totals={totals} />,
        ];
      })}
    />,
  );
}

interface BulkResult {
  readonly userId: string;
  readonly outcome: "granted" | "granted before" | "failed";
  readonly message: string;
}

/** Grants to each user, some at the same time. A user that is rejected does not stop the others. */
async function grantAll(c: PageContext): Promise<readonly BulkResult[]> {
  const grants = readBulk(c.var.form);
  const results: BulkResult[] = [];
  for (let at = 0; at < grants.length; at += AT_ONCE) {
    const some = grants.slice(at, at + AT_ONCE).map(async (input): Promise<BulkResult> => {
      const done = await catchRejection(() => callVerb(c, (ctx) => grantPack(ctx, input)));
      if (done.rejection !== undefined) {
        return { userId: input.userId, outcome: "failed", message: done.rejection.message };
      }
      return { userId: input.userId, outcome: done.result.replayed ? "granted before" : "granted", message: "" };
    });
    results.push(...(await Promise.all(some)));
  }
  return results;
}

const failedFirst = (results: readonly BulkResult[]) =>
  results.toSorted((a, b) => Number(b.outcome === "failed") - Number(a.outcome === "failed"));

async function bulkReport(c: PageContext) {
  const done = await catchRejection(async () => {
    assertSure(c.var.form);
    return grantAll(c);
  });
  if (done.rejection !== undefined) {
    return done.rejection.param === "sure" ? previewBulk(c, done.rejection) : bulkForm(c, c.var.form, done.rejection);
  }
  const count = (outcome: BulkResult["outcome"]) =>
    amountText(done.result.filter((result) => result.outcome === outcome).length);
  return page(
    c,
    { title: "Grants to many users", section: "users" },
    <AppForm action={`${BULK_PATH}/preview`} class="card">
      <p>
        {count("granted")} granted, {count("granted before")} granted before, {count("failed")} failed. Reference:{" "}
        <code>{c.var.form.ref}</code>
      </p>
      <Table
        label="Report"
        csv="bulk-grant"
        head={["User", "Result", "Why"]}
        empty=""
        rows={failedFirst(done.result).map(({ userId, outcome, message }) => [
          <UserLink id={userId} />,
          <Tag kind={outcome === "failed" ? "bad" : "good"}>{outcome}</Tag>,
          message,
        ])}
      />
      <Hidden fields={keptFields(c.var.form)} />
      <p>
        <SubmitButton text="Run the same list again" kind="quiet" />
      </p>
    </AppForm>,
  );
}

export const bulkGrantRoutes = createDashboardRoutes()
  .get(`/${BULK_PATH}`, (c) => bulkForm(c, c.req.query()))
  .post(`/${BULK_PATH}/preview`, (c) => previewBulk(c))
  .post(`/${BULK_PATH}`, bulkReport);
