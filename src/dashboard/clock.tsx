import { setClockInput } from "../api/apps/set-test-clock.ts";
import { readTestClock, removeClock, setClock } from "../clocks/clock.ts";
import { invalid, PurserError } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { Facts } from "./components.tsx";
import { confirmPage, stepRoutes } from "./confirm.tsx";
import { Field } from "./fields.tsx";
import { type Form, type PageContext, parseForm, timeField, useRequest } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { span, timeText } from "./format.tsx";
import { page } from "./layout.tsx";

const CLOCK_NOTICES: Readonly<Record<string, string>> = {
  set: "Clock moved.",
  removed: "Clock removed. Test mode uses real time.",
};

const JUMPS = [
  ["1 hour", 3_600_000],
  ["1 day", DAY_MS],
  ["30 days", 30 * DAY_MS],
] as const;

/** Returns a moment as the value of a `datetime-local` field, to the second. */
const clockFieldOf = (atMs: number): string => iso(Math.ceil(atMs / 1_000) * 1_000).slice(0, 19);

const NoClockInLiveMode = () => (
  <p class="card">
    Live mode uses real time.{" "}
    <AppLink to={`/admin/apps/${useRequest().var.ctx.environment.appId}/test/clock`}>The clock of test mode</AppLink>
  </p>
);

async function clockPage(c: PageContext, form: Form, rejection?: PurserError) {
  const { ctx, appId, mode } = c.var;
  const options = {
    title: "Test clock",
    section: "clock",
    rejection,
    notice: CLOCK_NOTICES[form.notice ?? ""],
  } as const;
  if (mode === "live") return page(c, options, <NoClockInLiveMode />);
  const { now, status } = await readTestClock(c.var.root, appId);
  const nowMs = now === null ? ctx.realNow() : Date.parse(now);
  return page(
    c,
    options,
    <>
      <section class="card">
        <Facts
          of={[
            [
              "Test time (UTC)",
              <>
                <b>{timeText(iso(nowMs))}</b>
                {now === null
                  ? ", which is real time: there is no clock"
                  : `, ${span(nowMs - ctx.realNow())} ahead of real time`}
              </>,
            ],
            status === "advancing" && [
              "Status",
              <>
                Advancing: the work that is due in between continues every minute. <AppLink to="clock">Refresh</AppLink>
              </>,
            ],
          ]}
        />
        <p class="soft">
          Everything in test mode follows this clock, except download links, sign-ins, signatures and webhook attempts.
          After it is set, it runs at the speed of real time.
        </p>
      </section>
      <FormCard
        method="get"
        action="clock/confirm"
        title="Move it forward"
        form={{ now: clockFieldOf(nowMs + DAY_MS), ...form }}
        rejection={rejection}
        button="Continue"
      >
        <Field label="To (UTC)" name="now" type="datetime-local" step="1" required />
        <p class="wide">
          {JUMPS.map(([name, jumpMs]) => (
            <>
              <LinkButton text={`${name} on`} to="clock/confirm" fields={{ now: clockFieldOf(nowMs + jumpMs) }} />{" "}
            </>
          ))}
        </p>
      </FormCard>
      {now !== null && (
        <FormCard
          action="clock/remove"
          about="Back to real time: only while test mode holds no credits, usage, payments or people. These have times of the clock."
          button="Remove the clock"
        />
      )}
    </>,
  );
}

async function confirmMove(c: PageContext, form: Form, rejection?: PurserError) {
  const { ctx, mode } = c.var;
  if (mode === "live") return clockPage(c, form);
  const { now } = parseForm(setClockInput, { now: timeField(form, "now") });
  if (now <= ctx.now()) throw invalid("now", "must be later than the environment's time: a clock only moves forward");
  return confirmPage(
    c,
    {
      title: "Move the test clock",
      action: "clock",
      fields: { now: form.now ?? "" },
      button: "Move the clock",
      cancel: "clock",
      rejection,
      facts: [
        ["From (UTC)", timeText(iso(ctx.now()))],
        [
          "To (UTC)",
          <>
            <b>{timeText(iso(now))}</b>, {span(now - ctx.now())} later
          </>,
        ],
      ],
    },
    "All work that is due in between runs now, in order: holds return or are charged, balances expire, notices and messages go out. It cannot be moved back.",
  );
}

/** Returns the action of a form of the page. Live mode has no clock. */
const onClock = (notice: string, work: (c: PageContext) => Promise<unknown>) => async (c: PageContext) => {
  if (c.var.mode === "live") throw new PurserError("not_found", "Live mode has no clock.");
  await work(c);
  return `clock?notice=${notice}`;
};

export const clockPages = stepRoutes("/clock", {
  form: clockPage,
  confirm: confirmMove,
  act: onClock("set", ({ var: { admin, appId, form } }) =>
    setClock(admin, appId, parseForm(setClockInput, { now: timeField(form, "now") })),
  ),
}).post(
  "/clock/remove",
  onSubmit(
    onClock("removed", ({ var: { admin, appId } }) => removeClock(admin, appId)),
    clockPage,
  ),
);
