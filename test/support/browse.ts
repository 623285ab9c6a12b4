import { env } from "cloudflare:workers";
import type { Mode } from "../../src/runtime.ts";
import { type Bindings, bound, Clock, type Deliver, startIsolate, type TestApp } from "./world.ts";

export const HOST = "http://purser.test";
/** A text that runs as a script on a page that does not escape it. */
export const EVIL = `"><img src=x onerror=alert(1)>`;
/** A rate limiter that never rejects. All tests would share the counts of a real one. */
export const ADMIN_TRIES: RateLimit = { limit: async () => ({ success: true }) };

/** A simple browser, which keeps its cookies and sends forms. */
export function browse(clock = new Clock(), bindings: Bindings = {}, deliver?: Deliver) {
  const isolate = startIsolate(clock, { deliver });
  let cookie = "";
  /** The cookie with a message that the next page shows once. */
  let once = "";
  const send = async (path: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    if (cookie !== "") headers.set("cookie", cookie + once);
    const ownEnv = bound({ ADMIN_TRIES, ...bindings });
    const answer = await isolate.request(HOST + path, { ...init, headers }, ownEnv);
    for (const set of answer.headers.getSetCookie()) {
      const [pair = ""] = set.split(";");
      if (pair.startsWith("purser_session=")) cookie = pair;
      else once = pair.endsWith("=") ? "" : `; ${pair}`;
    }
    return answer;
  };
  const post = (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) =>
    send(path, { method: "POST", body: new URLSearchParams(fields), headers });
  return {
    get: send,
    post,
    signIn: (token = env.ADMIN_TOKEN, headers: Record<string, string> = {}) =>
      post("/admin/sign-in", { token, name: "dashboard", next: "/admin/apps" }, headers),
    /** The token in the forms of this session. */
    formToken: async () => /name="_form" value="([^"]+)"/.exec(await (await send("/admin/apps")).text())?.[1] ?? "",
    cookie: () => cookie,
    setCookie: (value: string) => {
      cookie = value;
    },
  };
}

/** The text of a response, with `&amp;` as `&`, so that a test can search for addresses. */
export const textOf = async (answer: Response): Promise<string> => (await answer.text()).replaceAll("&amp;", "&");

/**
 * Signs in to the dashboard. The paths of `read` and `send` are below `at`, an application's mode, unless they begin with `/`. `read`
 * opens a page, and `send` submits a form.
 */
export async function openDashboard({ appId }: Pick<TestApp, "appId">, clock = new Clock(), mode: Mode = "live") {
  const browser = browse(clock);
  await browser.signIn();
  const at = `/admin/apps/${appId}/${mode}`;
  const pathOf = (path: string) => (path.startsWith("/") ? path : `${at}/${path}`);
  return {
    browser,
    at,
    read: async (path: string) => {
      const answer = await browser.get(pathOf(path));
      return { status: answer.status, headers: answer.headers, text: await textOf(answer) };
    },
    send: async (path: string, fields: Record<string, string>) =>
      browser.post(pathOf(path), { _form: await browser.formToken(), ...fields }),
  };
}

export const queryOf = (fields: Record<string, string>): string => `?${new URLSearchParams(fields)}`;

/** The texts of a table's rows. */
export function tableRows(text: string, label: string): string[] {
  const [, table = ""] = text.split(`aria-label="${label}"`);
  const [body = ""] = (table.split("<tbody>")[1] ?? "").split("</tbody>");
  return body
    .split("</tr>")
    .map((row) =>
      row
        .replaceAll(/<[^>]*>/g, " ")
        .replaceAll(/\s+/g, " ")
        .trim(),
    )
    .filter((row) => row !== "");
}

/** The amounts of the overview's equation, by line and by unit. */
export function readEquation(overview: string): Readonly<Record<string, Readonly<Record<string, number>>>> {
  const table = overview.slice(overview.indexOf('id="equation"')).split("</table>")[0] ?? "";
  const units = [...table.matchAll(/<th scope="col" class="end">([^<]*)</g)].map(([, unit = ""]) => unit);
  const rows = [...table.matchAll(/<th scope="row">([^<]*)<\/th>(.*?)<\/tr>/gs)];
  return Object.fromEntries(
    rows.map(([, label = "", cells = ""]) => {
      const amounts = [...cells.matchAll(/<td class="end">(?:<[^>]*>)?([^<]*)</g)].map(([, cell = ""]) =>
        Number(cell.replace("−", "-").replaceAll(/[+,]/g, "")),
      );
      return [label, Object.fromEntries(units.map((unit, index) => [unit, amounts[index] ?? 0]))];
    }),
  );
}
