import type { Context } from "hono";
import type { KeyOutput } from "../catalog/apps/responses.ts";
import type { PurserError } from "../errors.ts";
import { Choice, Field, Hidden, Pager, Table, Tag } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { type Form, textField } from "./form.ts";
import { query, time } from "./format.ts";
import { FormToken, pathIn } from "./layout.tsx";
import { Time } from "./time.tsx";

interface KeysProps {
  readonly c: Context<DashboardEnv>;
  readonly keys: readonly KeyOutput[];
  readonly next: string | null;
  /** Who made each key, by its id. */
  readonly madeBy: ReadonlyMap<string, string>;
  /** The form that was refused, and why. */
  readonly form: Form;
  readonly refusal: PurserError | undefined;
}

/** A page of the environment's keys, and the form for a new one. */
export const Keys = ({ c, keys, next, madeBy, form, refusal }: KeysProps) => (
  <section class="card">
    <h2>{c.var.ctx.environment.mode === "live" ? "Live keys" : "Test keys"}</h2>
    <Table
      label="Keys"
      head={["Key", "Kind", "Name", "Created", "By", "Last used", "Status"]}
      empty="No keys yet."
      rows={keys.map((key) => [
        <code>{key.hint}</code>,
        key.kind,
        key.name ?? "",
        <Time at={key.createdAt} />,
        madeBy.get(key.keyId) ?? "",
        <span class="num">{key.lastUsedOn ?? "not yet"}</span>,
        key.revokedAt === null ? (
          <a
            class="button quiet danger small"
            href={`${pathIn(c, "keys/confirm")}${query({ keyId: key.keyId })}`}
            aria-label={`Revoke ${key.hint}`}
          >
            Revoke
          </a>
        ) : (
          <Tag kind="revoked">revoked {time(key.revokedAt)}</Tag>
        ),
      ])}
    />
    <Pager
      first={textField(c.req.query(), "cursor") === undefined ? null : pathIn(c, "keys")}
      next={next && `${pathIn(c, "keys")}${query({ cursor: next })}`}
      words={["First keys", "More keys"]}
    />
    <form method="post" action={pathIn(c, "keys")} class="row">
      <FormToken c={c} />
      {/* Sent twice, this form makes one key. */}
      <Hidden fields={{ nonce: form.nonce ?? c.var.root.newId("") }} />
      <Choice
        label="New key"
        name="kind"
        value={form.kind}
        refusal={refusal}
        options={[
          ["secret", "secret: for your backend"],
          ["publishable", "publishable: for browsers"],
          ["relay", "relay: for a proxy or a customer-data platform"],
        ]}
      />
      <Field label="Name (optional)" name="name" value={form.name} placeholder="Backend" refusal={refusal} />
      <button type="submit">Create key</button>
    </form>
    <p class="soft">
      A relay key is for a server that passes on what others say: a reverse proxy, a customer-data platform, a server
      that takes ids from requests. It sends analytics and nothing else. What it says is believed no more than what a
      page says.
    </p>
  </section>
);
