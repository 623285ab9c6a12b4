import { setLimitsInput } from "../api/apps/set-limits.ts";
import type { PurserError } from "../errors.ts";
import { readLimits, setLimits } from "../people/limits/analytics-limits.ts";
import { type AnalyticsLimit, analyticsDefaults, type ReachedLimit } from "../people/limits/daily-limits.ts";
import { Meter } from "./chart.tsx";
import { Card } from "./components.tsx";
import { Field } from "./fields.tsx";
import { createDashboardRoutes, numberField, type PageContext, parseForm } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { amountText, timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { numberHead, Table } from "./table.tsx";

const NAMES: Readonly<Record<ReachedLimit, string>> = {
  eventsADay: "Events a day",
  bytesADay: "Bytes a day",
  eventsADayOfOneId: "Events a day of one id",
  bytesADayOfOneId: "Bytes a day of one id",
  databaseBytes: "Database almost full",
  claims: "Links made by one id",
};

// Object.keys loses the type of the limits' names.
const LIMITS = Object.keys(analyticsDefaults) as AnalyticsLimit[];

async function limitsPage(c: PageContext, rejection?: PurserError) {
  const { root, appId, mode } = c.var;
  const { analytics, today, reached } = await readLimits(root, appId, mode);
  const used: Readonly<Record<AnalyticsLimit, number>> = {
    eventsADay: today.events,
    bytesADay: today.bytes,
    eventsADayOfOneId: today.eventsOfOneId,
    bytesADayOfOneId: today.bytesOfOneId,
  };
  const stored = Object.fromEntries(
    LIMITS.filter((limit) => analytics[limit] !== analyticsDefaults[limit]).map((limit) => [
      limit,
      amountText(analytics[limit]),
    ]),
  );
  const notice = c.req.query("notice") === "set" ? "Limits saved. They take effect now." : undefined;
  return page(
    c,
    { title: "Limits", section: "limits", rejection, notice },
    <>
      <Card title="Analytics today">
        <p class="soft">
          Analytics that publishable and relay keys sent on {today.day} (UTC). Secret keys are not counted. Above a
          daily limit nothing more is stored until midnight; above the limit of an id, no more events of that id.
        </p>
        <Table
          label="Analytics today"
          head={["Limit", numberHead("Used"), numberHead("At most"), "Share"]}
          rows={LIMITS.map((limit) => [
            NAMES[limit],
            amountText(used[limit]),
            amountText(analytics[limit]),
            <>
              <Meter
                label={shareText(used[limit], analytics[limit])}
                remaining={Math.min(used[limit], analytics[limit])}
                initial={analytics[limit]}
              />
              <span class="soft">{shareText(used[limit], analytics[limit])}</span>
            </>,
          ])}
          empty=""
        />
      </Card>
      <Card title="Limits that were reached (last 30 days)">
        {reached.length === 0 && <p class="soft">None.</p>}
        <ul>
          {reached.map(({ limit, at }) => (
            <li>
              {NAMES[limit]}: {timeText(at)}
            </li>
          ))}
        </ul>
      </Card>
      <FormCard
        action="limits"
        title="Set limits"
        about="An empty field means the default. Ordinary clients never reach the defaults."
        form={{ ...stored, ...c.var.form }}
        rejection={rejection}
        button="Save limits"
      >
        {LIMITS.map((limit) => (
          <Field
            label={NAMES[limit]}
            name={limit}
            param={`analytics.${limit}`}
            placeholder={amountText(analyticsDefaults[limit])}
          />
        ))}
      </FormCard>
    </>,
  );
}

const shareText = (used: number, most: number): string =>
  `${most === 0 ? 100 : Math.min(100, Math.floor((100 * used) / most))} %`;

export const limitsRoutes = createDashboardRoutes()
  .get("/limits", (c) => limitsPage(c))
  .post(
    "/limits",
    onSubmit(
      async ({ var: { admin, appId, mode, form } }) => {
        const set = LIMITS.map((limit) => [limit, numberField(form, limit, `analytics.${limit}`)] as const);
        const analytics = Object.fromEntries(set.filter(([, value]) => value !== undefined));
        await setLimits(admin, appId, parseForm(setLimitsInput, { mode, analytics }));
        return "limits?notice=set";
      },
      (c, _form, rejection) => limitsPage(c, rejection),
    ),
  );
