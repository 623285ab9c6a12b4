import { type CallOptions, Purser } from "purser-client";
import { PurserAdmin } from "purser-client/admin";

/** An error whose message is all that the user needs. */
export class CliError extends Error {}

export type Mode = "live" | "test";

/** The application and mode that a command is about. */
export interface Target {
  readonly admin: PurserAdmin;
  readonly appId: string;
  readonly appName: string;
  readonly mode: Mode;
  /** The audit entry that must be the latest when a change is made. */
  readonly call: CallOptions;
}

/** Returns the target for a change that follows one of its own. */
export const afterOwnChange = (target: Target): Target => {
  const { ifLatestAuditEntry: latest } = target.call;
  return latest === undefined ? target : { ...target, call: { ifLatestAuditEntry: latest + 1 } };
};

export interface TargetOptions {
  readonly app?: string;
  readonly mode: Mode;
}

/** Returns a variable of the environment. Keys are read from nowhere else, so that no list of processes shows one. */
function variable(name: string, meaning: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") throw new CliError(`Set ${name}: ${meaning}.`);
  return value;
}

const purserUrl = () => variable("PURSER_URL", "the address of your Purser, such as https://purser.example.com");

/** Returns the secret for a setting whose file names none. */
export const secretFor = (name: string, meaning: string): string => variable(name, meaning);

const ADMIN_KEY = "an administration key of Purser's dashboard, or the admin token";

export const connectAdmin = (): PurserAdmin =>
  new PurserAdmin({ url: purserUrl(), key: variable("PURSER_ADMIN_KEY", ADMIN_KEY) });

/** Returns the secret key. Throws `CliError` for one of the other mode, which would grant there. */
export function secretKeyOf(mode: Mode): string {
  const key = variable("PURSER_SECRET_KEY", "a secret key of the application and mode, sk_…");
  const form = `sk_${mode}_`;
  if (!key.startsWith(form)) throw new CliError(`PURSER_SECRET_KEY is not a secret key of ${mode} mode, ${form}….`);
  return key;
}

/** `onTry` is called before each try of a call: the client retries one that got no answer. */
export const connectPurser = (key: string, onTry: () => void): Purser => {
  const send = (url: string, init: RequestInit) => {
    onTry();
    return fetch(url, init);
  };
  return new Purser({ url: purserUrl(), key, onWarning: () => {}, retries: 10, fetch: send });
};

/** Returns the application that `--app` names by its id or name; without it, the only one. If it is not there, says so. */
export async function searchTarget({ app, mode }: TargetOptions): Promise<Target | { readonly missing: string }> {
  const admin = connectAdmin();
  const { apps, unreachable = [] } = await admin.listApps();
  const found = app === undefined ? apps : apps.filter(({ appId, name }) => appId === app || name === app);
  const [first, second] = found;
  if (second !== undefined) {
    const listed = found.map(({ appId, name }) => `${name} (${appId})`).join(", ");
    throw new CliError(`Name one application with --app: ${listed}.`);
  }
  if (first !== undefined) return { admin, appId: first.appId, appName: first.name, mode, call: {} };
  // Otherwise --create-app would create a second application of the name.
  if (unreachable.length > 0)
    throw new CliError(`${unreachable.join(", ")} did not answer, where the application may be. Try again.`);
  if (app === undefined) return { missing: "There is no application. Create one: push --app NAME --create-app." };
  const names = apps.map(({ name }) => name).join(", ");
  return { missing: `There is no application ${app}. There are: ${names}. --create-app creates it.` };
}

export async function findTarget(options: TargetOptions): Promise<Target> {
  const found = await searchTarget(options);
  if ("missing" in found) throw new CliError(found.missing);
  return found;
}

export async function createTarget(app: string, mode: Mode): Promise<Target> {
  const admin = connectAdmin();
  const { appId } = await admin.createApp({ name: app });
  return { admin, appId, appName: app, mode, call: {} };
}
