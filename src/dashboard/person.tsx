import { exportPersonInput } from "../api/exports/create-export-link.ts";
import { revokeLinksInput } from "../api/exports/revoke-export-links.ts";
import { createLink, type ExportPersonOutput } from "../exports/create-link.ts";
import { revokeLinks } from "../exports/end-links.ts";
import { listExportEvents } from "../exports/export-audit.ts";
import { CLAIMS_A_DAY_MAX, CLAIMS_MADE_MAX } from "../people/claims.ts";
import { type Profile, readEventProperties, readProfile } from "../people/profile.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { fieldColumn, numberColumn, personColumn, textColumn, timeColumn } from "./columns.tsx";
import { Card, CopyBox, Facts, SubmitButton, Tag } from "./components.tsx";
import { Field } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type Form, type PageContext, parseForm } from "./form.ts";
import { AppForm, onSubmit, type ShowForm } from "./form-card.tsx";
import { amountText, queryString, Time, timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { PersonLink } from "./links.tsx";
import { RowsTable } from "./list.tsx";
import type { ListColumn } from "./read-list.ts";
import { keepOnce, takeOnce } from "./session.tsx";
import { TableCard } from "./table.tsx";

const FindPerson = ({ distinctId }: { distinctId: string }) => (
  <AppForm method="get" action="people" class="card row">
    <Field label="Distinct id" name="q" value={distinctId} />
    <SubmitButton text="Search" />
    <p class="soft wide">Any id of a person, or its beginning.</p>
  </AppForm>
);

const PersonActions = ({ distinctId }: { distinctId: string }) => (
  <>
    <LinkButton text="View credits" to="users" fields={{ userId: distinctId }} />
    <LinkButton text="Erase this person…" kind="danger" to="people/erase" fields={{ distinctId }} />
  </>
);

/** Shows what is stored about the person who has an id. */
export async function personPage(c: PageContext, given: string) {
  const found = await catchRejection(async () => {
    const { distinctId } = parseForm(exportPersonInput, { distinctId: given });
    const profile = await readProfile(c.var.ctx, distinctId);
    const counting = profile.claims.filter((claim) => claim.counts).map((claim) => claim.distinctId);
    const ids = new Set([distinctId, ...counting]);
    return { distinctId, profile, audit: await listExportEvents(c.var.ctx, [...ids]) };
  });
  if (found.result === undefined) {
    const { rejection } = found;
    return page(c, { title: "People", section: "people", rejection }, <FindPerson distinctId={given} />);
  }
  const { distinctId, profile, audit } = found.result;
  const link = (await takeOnce<ExportPersonOutput>(c, `link ${distinctId}`)) ?? undefined;
  return page(
    c,
    { title: `Person ${distinctId}`, section: "people", actions: <PersonActions distinctId={distinctId} /> },
    <>
      {profile.person === null && <FindPerson distinctId={distinctId} />}
      <PersonFacts profile={profile} />
      <ClaimsView profile={profile} />
      <Export distinctId={distinctId} link={link} audit={audit} />
      <Events events={profile.events} />
      <Consents consents={profile.consents} />
    </>,
  );
}

const PersonFacts = ({ profile }: { profile: Profile }) => (
  <Card title="Profile">
    {profile.person === null ? (
      <p class="empty">No person has this id. Data stored under the id is shown below.</p>
    ) : (
      <Facts
        of={[
          [
            "Person id",
            <>
              <code>{profile.person.personId}</code>{" "}
              {profile.person.isIdentified ? <Tag kind="active">identified</Tag> : null}
            </>,
          ],
          [
            "First and last seen (UTC)",
            <>
              {timeText(profile.person.createdAt)} to {timeText(profile.person.lastSeenAt)}
            </>,
          ],
          ["Properties set with secret keys", propertiesText(profile.person.verifiedProperties)],
          ["Properties set with other keys", propertiesText(profile.person.otherProperties)],
        ]}
      />
    )}
  </Card>
);

const propertiesText = (json: string | null) => (json === null ? "none" : <code>{json}</code>);

type ClaimView = Profile["claims"][number];

const FLAWS: Readonly<Record<ClaimView["flaws"][number], string>> = {
  identified: "it is an identified user",
  known: "your server or its own page identified it as a user",
  account: "it has credits, usage, rejected usage or payments",
  consent: "it has its own consent decisions",
};

/** Shows whether a claim counts now, and if not, why. A claim on an id that became a user no longer counts (P2). */
const ClaimState = ({ claim }: { claim: ClaimView }) => {
  if (claim.isVerified) return <Tag kind="active">verified</Tag>;
  if (claim.counts) return <Tag kind="granted">counted</Tag>;
  return (
    <>
      <Tag kind="expired">not counted</Tag> {claim.flaws.map((flaw) => FLAWS[flaw]).join(", ")}
    </>
  );
};

const CLAIM_COLUMNS: readonly ListColumn<ClaimView>[] = [
  personColumn("distinctId", "Distinct id"),
  personColumn("claimedBy", "Linked to"),
  textColumn("via", "Method"),
  timeColumn("linkedAt", "Linked", ""),
  fieldColumn("isVerified", "Status", (claim) => <ClaimState claim={claim} />),
  numberColumn("eventCount", "Events"),
  fieldColumn("counts", "Credits", ({ distinctId }) => (
    <AppLink to="users" fields={{ userId: distinctId }}>
      credits
    </AppLink>
  )),
];

const ClaimsView = ({ profile }: { profile: Profile }) => (
  <Card title="Linked ids" id="claims">
    <p class="soft">
      A person is this id and the ids linked to it, by links that are counted. A link from a secret key is verified. A
      link from a publishable or relay key proves nothing.
    </p>
    {profile.claimsOverLimit > 0 && (
      <p>
        {amountText(profile.claimsOverLimit)} more links by publishable and relay keys had no effect: an id makes at
        most {CLAIMS_A_DAY_MAX} a UTC day and {amountText(CLAIMS_MADE_MAX)} in all. Nobody does that by hand. A secret
        key may link any number.
      </p>
    )}
    {profile.claimed !== null && (
      <p>
        This id is linked to <PersonLink id={profile.claimed.claimedBy ?? ""} /> <ClaimState claim={profile.claimed} />{" "}
        The data of that id is not part of this person.
      </p>
    )}
    <RowsTable
      label="Linked ids"
      csv="linked-ids"
      columns={CLAIM_COLUMNS}
      rows={profile.claims}
      empty="No linked ids."
    />
    {profile.isTruncated && <p class="soft">Not all ids are shown.</p>}
  </Card>
);

interface ExportProps {
  readonly distinctId: string;
  readonly link: ExportPersonOutput | undefined;
  readonly audit: Awaited<ReturnType<typeof listExportEvents>>;
}

const EXPORT_COLUMNS: readonly ListColumn<ExportProps["audit"][number]>[] = [
  timeColumn("occurredAt", "When"),
  fieldColumn("action", "Event", ({ action }) => <Tag kind={action}>{action === "minted" ? "created" : action}</Tag>),
  fieldColumn("tokenHash", "Link", ({ tokenHash }) => <code>{tokenHash.slice(0, 8)}</code>),
  fieldColumn("keyId", "By", ({ action, keyId }) =>
    action === "minted" ? <code>{keyId ?? "dashboard"}</code> : "link holder",
  ),
];

const Export = ({ distinctId, link, audit }: ExportProps) => (
  <Card title="Data export" id="export">
    {link !== undefined && (
      <>
        <CopyBox label={`Download link, valid until ${timeText(link.expiresAt)} UTC`} value={link.downloadUrl} />
        <p class="soft">Anyone with this link can download the data. It is not shown again.</p>
      </>
    )}
    <AppForm action="people/mint" fields={{ distinctId }}>
      <p>
        <SubmitButton text="Create download link" />{" "}
        <span class="soft">
          Contains the ids, properties, events, consent, credits and earlier exports of the person. Valid for 24 hours.
        </span>
      </p>
    </AppForm>
    <AppForm action="people/links/revoke" fields={{ distinctId }}>
      <p>
        <SubmitButton text="End all links" kind="quiet" />{" "}
        <span class="soft">Ends all links that were created for this id. A running download continues.</span>
      </p>
    </AppForm>
    <h3>Export history</h3>
    <RowsTable label="Exports" csv="exports" columns={EXPORT_COLUMNS} rows={audit} empty="No exports yet." />
  </Card>
);

const Events = ({ events }: { events: Profile["events"] }) => (
  <TableCard
    title="Recent events"
    label="Events"
    csv="events"
    head={["When", "Event", "Distinct id", "Sent with", "Properties"]}
    empty="No analytics events."
    rows={events.map((event) => [
      <Time at={event.timestamp} />,
      event.event,
      <code>{event.distinctId}</code>,
      event.isVerified ? <Tag kind="active">secret key</Tag> : "publishable or relay key",
      <details>
        <summary>Show</summary>
        <code>{event.properties}</code>
        {event.isTruncated && (
          <>
            …{" "}
            <AppLink to="people/properties" fields={{ distinctId: event.distinctId, uuid: event.uuid }}>
              All properties
            </AppLink>
          </>
        )}
      </details>,
    ])}
  />
);

const Consents = ({ consents }: { consents: Profile["consents"] }) => (
  <TableCard
    title="Consent log"
    label="Consents"
    csv="consents"
    head={["When", "Purpose", "Decision", "Method", "Distinct id"]}
    empty="No consent decisions."
    rows={consents.map((entry) => [
      <Time at={entry.occurredAt} />,
      entry.purpose,
      <Tag kind={entry.decision}>{entry.decision}</Tag>,
      [entry.method, entry.noticeVersion, entry.source].filter((part) => part !== null).join(", "),
      <code>{entry.distinctId}</code>,
    ])}
  />
);

const exportPath = ({ distinctId }: Form): string => `people${queryString({ distinctId })}#export`;

const rejectedPage: ShowForm = (c, _form, rejection) =>
  page(c, { title: "People", section: "people", rejection }, <FindPerson distinctId="" />);

export const personRoutes = createDashboardRoutes()
  .get("/people/properties", async (c) => {
    const { distinctId = "", uuid = "" } = c.req.query();
    const json = await readEventProperties(c.var.ctx, { distinctId, uuid });
    return c.body(json, 200, { "content-type": "application/json; charset=utf-8" });
  })
  .post(
    "/people/mint",
    onSubmit(async (c) => {
      const { ctx, form } = c.var;
      const input = parseForm(exportPersonInput, { distinctId: form.distinctId });
      const link = await createLink(ctx, { ...input, requestOrigin: new URL(c.req.url).origin });
      await keepOnce(c, `link ${input.distinctId}`, link);
      return exportPath(form);
    }, rejectedPage),
  )
  .post(
    "/people/links/revoke",
    onSubmit(async ({ var: { ctx, form } }) => {
      await revokeLinks(ctx, parseForm(revokeLinksInput, { distinctId: form.distinctId }));
      return exportPath(form);
    }, rejectedPage),
  );
