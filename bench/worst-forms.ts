import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { MIB, type Shape, times, utf8 } from "./worst-shapes.ts";

const root = join(import.meta.dirname, "..");

/** The path of every form of the dashboard, as src/dashboard mounts it, with ids that are nobody's. */
function formPaths(appId: string): string[] {
  const paths = globSync("src/dashboard/*.tsx", { cwd: root }).flatMap((file) => {
    const text = readFileSync(join(root, file), "utf8");
    const constants = new Map(
      [...text.matchAll(/const ([A-Z]+) = "(\/[^"]+)"/g)].map(([, name, path]) => [name, path]),
    );
    return [...text.matchAll(/\.post\((?:"([^"]+)"|`\$\{([A-Z]+)\}([^`]*)`|([A-Z]+)),/g)].map(
      ([, path, constant, rest, alone]) => path ?? `${constants.get(constant ?? alone ?? "")}${rest ?? ""}`,
    );
  });
  const own = (path: string) => (/^\/(apps|sign-in|sign-out)/.test(path) ? "/admin" : `/admin/apps/${appId}/live`);
  return paths.map((path) => own(path) + path.replaceAll(/:(\w+)/g, (_, name) => IDS[name] ?? "none")).sort();
}
const IDS: Readonly<Record<string, string>> = { packId: "cpk_bench", webhookId: "whe_none", erasureId: "era_none" };

/** The fields that some form reads as a list, by lines, commas or JSON, and those that are a person's or a user's. */
const LISTS = ["types", "days", "prices", "signingSecrets", "origins", "event", "distinctIds", "distinctId", "userId"];

/** Forms of the dashboard: without a session, when they are kept for it, and with one. */
export function formShapes(appId: string, cookie: string, token: string): Shape[] {
  const form = (name: string, path: string, text: string, others: Readonly<Record<string, string>> = {}): Shape => {
    const body = utf8(text);
    const headers = { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin", ...others };
    return { name: `${path.split("/").slice(2).join("/")}: ${name}`, path, body, bytes: body.length, headers };
  };
  const own = `/admin/apps/${appId}/live`;
  const many = times(24_990, (n) => `f${n}=%E2%82%AC%E2%82%AC`).join("&");
  const long = `a=${"%E2%82%AC".repeat(110_000)}`;
  const names = `${"%3C".repeat(300_000)}=1`;
  const items = (count: number) =>
    times(count, (n) => `items.${n}.amount=1&items.${n}.unit=count&items.${n}.rules.0.event=a*b*c*d*`).join("&");
  const rules = times(8_000, (n) => `items.0.rules.${n}.event=*a*a*a*a*a*a*a*a*b`).join("&");
  const shapes = [
    ["many fields", many],
    ["a long field", long],
    ["a long name", names],
  ] as const;
  const lists = [
    ["lines", "%0D%0A"],
    ["commas", "a,"],
  ].map(([name = "", part = ""]) => {
    const value = part.repeat(Math.floor(MIB / part.length / LISTS.length) - 20);
    return [name, LISTS.map((field) => `${field}=${value}`).join("&")] as const;
  });
  const signedIn = (name: string, path: string, text: string) =>
    form(name, path, `_form=${token}&${text}`, { cookie: `purser_session=${cookie}` });
  const page = (name: string, path: string): Shape => ({
    ...{ name, path: `${own}/${path}`, method: "GET", body: new Uint8Array(), bytes: 0 },
    headers: { cookie: `purser_session=${cookie}` },
  });
  return [
    page("person's page: of 30 events of 255,000 characters", "people?distinctId=large"),
    page("person's page: of 10,000 ids", "people?distinctId=many"),
    ...shapes.flatMap(([name, text]) => [
      form(name, "/admin/sign-in", text),
      form(`${name}, without a session`, `${own}/packs`, text),
    ]),
    ...[`${own}/packs`, `${own}/packs/new/try`].flatMap((path) => [
      signedIn("8,000 items", path, `kind=items&packName=p&try.event=${"ab".repeat(100)}&${items(8_000)}`),
      signedIn("8,000 rules", path, `kind=items&packName=p&items.0.amount=1&try.event=${"a".repeat(200)}&${rules}`),
      signedIn("an event of separators", path, `kind=items&packName=p&try.event=${".".repeat(900_000)}`),
    ]),
    // By their paths, so that signing out, which ends the session, is the last.
    ...formPaths(appId).flatMap((path) => [
      signedIn("many fields", path, many),
      ...lists.map(([name, text]) => signedIn(name, path, text)),
    ]),
  ];
}
