import { env } from "cloudflare:workers";
import { type Bindings, bound, Clock, type Deliver, startIsolate } from "./world.ts";

export const HOST = "http://purser.test";
/** A text that runs as a script on a page that does not escape it. */
export const EVIL = `"><img src=x onerror=alert(1)>`;
/** A rate limiter that never refuses. All tests would share the counts of a real one. */
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
