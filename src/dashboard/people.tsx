import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { createLink } from "../exports/create-link.ts";
import { listExportEvents } from "../exports/list-events.ts";
import type { ExportPersonOutput } from "../exports/responses.ts";
import { exportPersonInput } from "../exports/schemas.ts";
import { type Profile, readProfile } from "../people/profile.ts";
import { CopyBox, Field, Hidden, Table, Tag } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, parseForm } from "./form.ts";
import { query, time } from "./format.ts";
import { FormToken, page, pathIn } from "./layout.tsx";

const FindPerson = ({ c, distinctId }: { c: Context<DashboardEnv>; distinctId?: string | undefined }) => (
  <form method="get" action={pathIn(c, "people")} class="card row">
    <Field label="Any id of the person" name="distinctId" value={distinctId} required />
    <button type="submit">Find</button>
    {distinctId !== undefined && (
      <a class="button quiet" href={`${pathIn(c, "users")}${query({ userId: distinctId })}`}>
        Their credits
      </a>
    )}
  </form>
);

async function peoplePage(c: Context<DashboardEnv>, given: string | undefined, link?: ExportPersonOutput) {
  if (given === undefined || given === "") {
    return page(c, { title: "People", section: "people" }, <FindPerson c={c} />);
  }
  const found = await catchRefusal(async () => {
    const { distinctId } = parseForm(exportPersonInput, { distinctId: given });
    const profile = await readProfile(c.var.ctx, distinctId);
    const counting = profile.claims.filter((claim) => claim.counts).map((claim) => claim.distinctId);
    const ids = new Set([distinctId, ...counting]);
    return { distinctId, profile, audit: await listExportEvents(c.var.ctx, [...ids]) };
  });
  if (found.result === undefined) {
    const { refusal } = found;
    return page(c, { title: "People", section: "people", refusal }, <FindPerson c={c} distinctId={given} />);
  }
  const { distinctId, profile, audit } = found.result;
  return page(
    c,
    { title: `Person ${distinctId}`, section: "people" },
    <>
      <FindPerson c={c} distinctId={distinctId} />
      <PersonFacts profile={profile} />
      <Claims c={c} profile={profile} />
      <Export c={c} distinctId={distinctId} link={link} audit={audit} />
      <Events events={profile.events} />
      <Consents consents={profile.consents} />
    </>,
  );
}

const PersonFacts = ({ profile }: { profile: Profile }) => (
  <section class="card">
    <h2>Who they are</h2>
    {profile.person === null ? (
      <p class="empty">This id belongs to no person. What is held under the id itself is shown below.</p>
    ) : (
      <dl class="facts">
        <dt>Person id</dt>
        <dd>
          <code>{profile.person.personId}</code>{" "}
          {profile.person.isIdentified ? <Tag kind="active">identified</Tag> : null}
        </dd>
        <dt>First and last seen (UTC)</dt>
        <dd>
          {time(profile.person.createdAt)} to {time(profile.person.lastSeenAt)}
        </dd>
        <dt>Properties</dt>
        <dd>
          <code>{profile.person.properties}</code>
        </dd>
      </dl>
    )}
  </section>
);

type Claim = Profile["claims"][number];

const FLAWS: Readonly<Record<Claim["flaws"][number], string>> = {
  identified: "it was identified itself",
  credits: "it has credits",
  usage: "it has usage",
  consent: "it gave a consent itself",
};

/** Whether a claim counts now, and why it does not: an id that became a user belongs to itself again (P2). */
const ClaimState = ({ claim }: { claim: Claim }) => {
  if (claim.isVerified) return <Tag kind="active">verified</Tag>;
  if (claim.counts) return <Tag kind="granted">counts</Tag>;
  return (
    <>
      <Tag kind="expired">does not count</Tag> {claim.flaws.map((flaw) => FLAWS[flaw]).join(", ")}
    </>
  );
};

const PersonLink = ({ c, distinctId }: { c: Context<DashboardEnv>; distinctId: string }) => (
  <a href={`${pathIn(c, "people")}${query({ distinctId })}`}>
    <code>{distinctId}</code>
  </a>
);

const Claims = ({ c, profile }: { c: Context<DashboardEnv>; profile: Profile }) => (
  <section class="card" id="claims">
    <h2>Linked ids</h2>
    <p class="soft">
      The person is this id and the ids that it claims, by claims that count. What a publishable key claims is no proof;
      a claim sent with a secret key is verified.
    </p>
    {profile.claimed !== null && (
      <p>
        Claimed by <PersonLink c={c} distinctId={profile.claimed.claimedBy ?? ""} />{" "}
        <ClaimState claim={profile.claimed} /> The data of that id are not part of this person.
      </p>
    )}
    <Table
      label="Claims"
      head={["Id", "Claimed by", "Linked by", "Linked (UTC)", "Standing", "Events"]}
      empty="It claims no other id."
      rows={profile.claims.map((claim) => [
        <PersonLink c={c} distinctId={claim.distinctId} />,
        <PersonLink c={c} distinctId={claim.claimedBy ?? ""} />,
        claim.via ?? "",
        <span class="num">{time(claim.linkedAt, "")}</span>,
        <ClaimState claim={claim} />,
        <span class="num">{claim.eventCount}</span>,
      ])}
    />
    {profile.isTruncated && <p class="soft">It claims more ids than are shown.</p>}
  </section>
);

interface ExportProps {
  readonly c: Context<DashboardEnv>;
  readonly distinctId: string;
  readonly link: ExportPersonOutput | undefined;
  readonly audit: Awaited<ReturnType<typeof listExportEvents>>;
}

const Export = ({ c, distinctId, link, audit }: ExportProps) => (
  <section class="card" id="export">
    <h2>Their data, to take along</h2>
    {link !== undefined && (
      <>
        <CopyBox label={`Download link, valid until ${time(link.expiresAt)} UTC`} value={link.downloadUrl} />
        <p class="soft">Whoever holds the link can download. It is shown this once.</p>
      </>
    )}
    <form method="post" action={pathIn(c, "people/mint")}>
      <FormToken c={c} />
      <Hidden fields={{ distinctId }} />
      <p>
        <button type="submit">Mint a download link</button>{" "}
        <span class="soft">For everything held about the person, for 24 hours.</span>
      </p>
    </form>
    <h3>Who asked, profile opened</h3>
    <Table
      label="Exports"
      head={["When (UTC)", "What", "Link", "By"]}
      empty="Nobody yet."
      rows={audit.map((row): Child[] => [
        <span class="num">{time(row.occurredAt)}</span>,
        <Tag kind={row.action}>{row.action}</Tag>,
        <code>{row.tokenHash.slice(0, 8)}</code>,
        row.action === "minted" ? <code>{row.keyId ?? "the administrator"}</code> : "the link's holder",
      ])}
    />
  </section>
);

const Events = ({ events }: { events: Profile["events"] }) => (
  <section class="card">
    <h2>Last events</h2>
    <Table
      label="Events"
      head={["When (UTC)", "Event", "Id", "Sent with", "Properties"]}
      empty="No analytics events."
      rows={events.map((event) => [
        <span class="num">{time(event.timestamp)}</span>,
        event.event,
        <code>{event.distinctId}</code>,
        event.isVerified ? <Tag kind="active">secret key</Tag> : "publishable key",
        <details>
          <summary>Show</summary>
          <code>{event.properties}</code>
        </details>,
      ])}
    />
  </section>
);

const Consents = ({ consents }: { consents: Profile["consents"] }) => (
  <section class="card">
    <h2>Consent log</h2>
    <Table
      label="Consents"
      head={["When (UTC)", "Purpose", "Decision", "How", "Id"]}
      empty="No consents."
      rows={consents.map((entry) => [
        <span class="num">{time(entry.occurredAt)}</span>,
        entry.purpose,
        <Tag kind={entry.decision}>{entry.decision}</Tag>,
        [entry.method, entry.noticeVersion, entry.source].filter((part) => part !== null).join(", "),
        <code>{entry.distinctId}</code>,
      ])}
    />
  </section>
);

export const peopleRoutes = () =>
  createDashboardRoutes()
    .get("/people", (c) => peoplePage(c, c.req.query("distinctId")))
    .post("/people/mint", async (c) => {
      const { distinctId } = c.var.form;
      const link = await catchRefusal(async () =>
        createLink(c.var.ctx, { ...parseForm(exportPersonInput, { distinctId }), origin: new URL(c.req.url).origin }),
      );
      return link.refusal === undefined
        ? peoplePage(c, distinctId, link.result)
        : page(c, { title: "People", section: "people", refusal: link.refusal }, <FindPerson c={c} />);
    });
