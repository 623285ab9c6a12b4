import type { Context } from "hono";
import { setClockInput } from "../api/apps/set-test-clock.ts";
import { readTestClock, removeClock, setClock } from "../clocks/clock.ts";
import { invalid, type PurserError } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { Facts } from "./components.tsx";
import { Confirm } from "./confirm.tsx";
import { Field } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, type Form, parseForm, timeField } from "./form.ts";
import { queryString, span, timeText } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";

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

const NoClockInLiveMode = ({ c }: { c: Context<DashboardEnv> }) => (
  <p class="card">
    Live mode uses real time.{" "}
    <a href={`/admin/apps/${c.var.ctx.environment.appId}/test/clock`}>The clock of test mode</a>
  </p>
);

async function clockPage(c: Context<DashboardEnv>, form: Form, rejection?: PurserError) {
  const { ctx } = c.var;
  const { appId, mode } = ctx.environment;
  const options = {
    title: "Test clock",
    section: "clock",
    rejection,
    notice: CLOCK_NOTICES[form.notice ?? ""],
  } as const;
  if (mode === "live") return page(c, options, <NoClockInLiveMode c={c} />);
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
                Advancing: the work that is due in between continues every minute.{" "}
                <a href={pathIn(c, "clock")}>Refresh</a>
              </>,
            ],
          ]}
        />
        <p class="soft">
          Everything in test mode follows this clock, except download links, sign-ins, signatures and webhook attempts.
          After it is set, it runs at the speed of real time.
        </p>
      </section>
      <form method="get" action={pathIn(c, "clock/confirm")} class="card">
        <h2>Move it forward</h2>
        <div class="row">
          <Field
            label="To (UTC)"
            name="now"
            type="datetime-local"
            step="1"
            value={form.now ?? clockFieldOf(nowMs + DAY_MS)}
            required
            rejection={rejection}
          />
          <button type="submit">Continue</button>
        </div>
        <p>
          {JUMPS.map(([name, jumpMs]) => (
            <>
              <a
                class="button quiet"
                href={`${pathIn(c, "clock/confirm")}${queryString({ now: clockFieldOf(nowMs + jumpMs) })}`}
              >
                {name} on
              </a>{" "}
            </>
          ))}
        </p>
      </form>
      {now !== null && (
        <form method="post" action={pathIn(c, "clock/remove")} class="card">
          <FormToken c={c} />
          <p>
            Back to real time: only while test mode holds no credits, usage, payments or people. These have times of the
            clock.
          </p>
          <button type="submit" class="quiet">
            Remove the clock
          </button>
        </form>
      )}
    </>,
  );
}

async function confirmPage(c: Context<DashboardEnv>, form: Form) {
  const { ctx } = c.var;
  if (ctx.environment.mode === "live") return clockPage(c, form);
  const read = await catchRejection(async () => {
    const { now } = parseForm(setClockInput, { now: timeField(form, "now") });
    if (now <= ctx.now()) throw invalid("now", "must be later than the environment's time: a clock only moves forward");
    return now;
  });
  if (read.result === undefined) return clockPage(c, form, read.rejection);
  return page(
    c,
    { title: "Move the test clock", section: "clock" },
    <Confirm c={c} action="clock" fields={{ now: form.now ?? "" }} button="Move the clock" cancel="clock">
      <Facts
        of={[
          ["From (UTC)", timeText(iso(ctx.now()))],
          [
            "To (UTC)",
            <>
              <b>{timeText(iso(read.result))}</b>, {span(read.result - ctx.now())} later
            </>,
          ],
        ]}
      />
      <p>
        All work that is due in between runs now, in order: holds return or are charged, balances expire, notices and
        messages go out. It cannot be moved back.
      </p>
    </Confirm>,
  );
}

export const clockPages = createDashboardRoutes()
  .get("/clock", (c) => clockPage(c, c.req.query()))
  .get("/clock/confirm", (c) => confirmPage(c, c.req.query()))
  .post("/clock", async (c) => {
    const { form, admin, ctx } = c.var;
    if (ctx.environment.mode === "live") return clockPage(c, form);
    const done = await catchRejection(async () =>
      setClock(admin, ctx.environment.appId, parseForm(setClockInput, { now: timeField(form, "now") })),
    );
    return done.rejection === undefined
      ? c.redirect(pathIn(c, "clock?notice=set"), 303)
      : clockPage(c, form, done.rejection);
  })
  .post("/clock/remove", async (c) => {
    const { admin, ctx } = c.var;
    if (ctx.environment.mode === "live") return clockPage(c, {});
    const done = await catchRejection(() => removeClock(admin, ctx.environment.appId));
    return done.rejection === undefined
      ? c.redirect(pathIn(c, "clock?notice=removed"), 303)
      : clockPage(c, {}, done.rejection);
  });
