import { verifyInput } from "../api/credits/verify-user.ts";
import { VERIFIED_ENTRIES_MAX, type VerifyOutput, verifyUser, verifyUsers } from "../books/credits/verify.ts";
import type { PurserError } from "../errors.ts";
import { AppLink } from "./app-link.tsx";
import { catchRejection, createDashboardRoutes, type PageContext, parseForm, textField } from "./form.ts";
import { amountText, queryString } from "./format.tsx";
import { page } from "./layout.tsx";
import { BalanceLink, UserLink } from "./links.tsx";
import { numberHead, Table } from "./table.tsx";

const REJECTION_TEXTS: Readonly<Record<VerifyOutput["flaws"][number]["kind"], string>> = {
  sum: "what remains is not the sum of its entries",
  gap: "an entry is missing",
  chain: "an entry does not continue from the previous one",
  below_zero: "it was below zero",
  limit: "the counter of a usage limit is not the sum of the counted usage in its window",
  owed: "it owes more to a refund than open reservations hold of it",
};

const VerifyVerdict = ({ result }: { result: VerifyOutput }) => (
  <>
    <p class={`verdict ${result.isSound ? "yes" : "no"}`}>
      {result.isSound ? "✓ Sound" : `✗ ${result.flaws.length} ${result.flaws.length === 1 ? "flaw" : "flaws"}`}
    </p>
    {result.flaws.length > 0 && (
      <ul>
        {result.flaws.map(({ balanceId, kind }) => (
          <li>
            {balanceId === null ? "The ledger" : <BalanceLink id={balanceId} />}: {REJECTION_TEXTS[kind]}
          </li>
        ))}
      </ul>
    )}
  </>
);

interface VerifyPage {
  readonly title: string;
  readonly results: readonly VerifyOutput[];
  /** The position at which verification continues. Null at its end. */
  readonly next: string | null;
  readonly rejection?: PurserError | undefined;
}

const verifyPage = (c: PageContext, { title, results, next, rejection }: VerifyPage) =>
  page(
    c,
    { title, section: "users", rejection },
    <section class="card">
      <p class="soft">
        Every balance is computed again from the ledger, and compared with what is stored. A page verifies up to{" "}
        {amountText(VERIFIED_ENTRIES_MAX)} entries.
      </p>
      <Table
        label="Verification"
        head={["User", numberHead("Balances"), numberHead("Entries"), "Result"]}
        empty="There is nothing to verify."
        rows={results.map((result) => [
          <UserLink id={result.userId} />,
          <span class="num">{amountText(result.balances)}</span>,
          <span class="num">{amountText(result.entries)}</span>,
          <VerifyVerdict result={result} />,
        ])}
      />
      <p>{next === null ? "There is nothing more to verify." : <AppLink to={next}>Verify the next entries</AppLink>}</p>
    </section>,
  );

export const verifyRoutes = createDashboardRoutes()
  .get("/users/verify", async (c) => {
    const { userId = "", ...form } = c.req.query();
    const title = `Verification of ${userId}`;
    const done = await catchRejection(async () =>
      verifyUser(c.var.ctx, parseForm(verifyInput, { userId, cursor: textField(form, "cursor") })),
    );
    if (done.result === undefined) return verifyPage(c, { title, results: [], next: null, rejection: done.rejection });
    const { nextCursor } = done.result;
    const next = nextCursor === null ? null : `users/verify${queryString({ userId, cursor: nextCursor })}`;
    return verifyPage(c, { title, results: [done.result], next });
  })
  .get("/verify", async (c) => {
    const title = "Verification";
    const done = await catchRejection(() => verifyUsers(c.var.ctx, textField(c.req.query(), "cursor")));
    if (done.result === undefined) return verifyPage(c, { title, results: [], next: null, rejection: done.rejection });
    const { users, nextCursor } = done.result;
    return verifyPage(c, {
      title,
      results: users,
      next: nextCursor === null ? null : `verify${queryString({ cursor: nextCursor })}`,
    });
  });
