import { appendFileSync, chmodSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { CONFIG_FILE, type Config, readConfig, writeConfig } from "./config-file.ts";
import { CliError, createTarget, findTarget, searchTarget, type Target, type TargetOptions } from "./connection.ts";
import { type Change, configOf, duplicatesOf, planOf, readStates, type States, unsetStates } from "./plan.ts";
import { fingerprint, SECTIONS, type State } from "./sections.ts";

interface FileOptions extends TargetOptions {
  readonly file: string;
  readonly json?: boolean;
}

interface PushOptions extends FileOptions {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly prune?: boolean;
  readonly createApp?: boolean;
  readonly secretsFile?: string;
}

const SIGNS = { create: "+", change: "~", replace: "~", archive: "-", delete: "-" };
const VALUE_LENGTH_MAX = 80;

const short = (value: unknown): string => {
  const text = JSON.stringify(value ?? null);
  return text.length > VALUE_LENGTH_MAX ? `${text.slice(0, VALUE_LENGTH_MAX)}…` : text;
};

function linesOf({ action, what, fields, isPruning }: Change, prune: boolean): string {
  const left = isPruning && !prune ? ` (not in the file; --prune would ${action} it)` : "";
  const head = `${SIGNS[action]} ${action} ${what}${left}`;
  return [head, ...fields.map(({ field, before, after }) => `    ${field}: ${short(before)} → ${short(after)}`)].join(
    "\n",
  );
}

const plain = ({ section, action, what, fields, isPruning }: Change) => ({ section, action, what, fields, isPruning });

const sectionsOf = (config: Config) => Object.keys(SECTIONS).filter((name) => name in config);

const print = (text: string) => process.stdout.write(`${text}\n`);

export async function pull({ file = CONFIG_FILE, json, ...options }: FileOptions): Promise<void> {
  const target = await findTarget(options);
  const states = await readStates(target, Object.keys(SECTIONS));
  const duplicates = duplicatesOf(states);
  for (const [name, what] of duplicates) {
    process.stderr.write(
      `The file leaves out ${name}: Purser has ${what} twice. Change or delete one, and pull again.\n`,
    );
  }
  writeConfig(file, configOf(states, duplicates));
  const { appName: app, mode } = target;
  print(json === true ? JSON.stringify({ app, mode, file }) : `Wrote the ${mode} settings of ${app} to ${file}.`);
}

/** Exits with 2 where something differs. */
export async function diff({ file, json, ...options }: FileOptions): Promise<void> {
  const config = readConfig(file);
  const target = await findTarget(options);
  const changes = planOf(config, await readStates(target, sectionsOf(config)));
  if (json === true) print(JSON.stringify({ app: target.appName, mode: target.mode, changes: changes.map(plain) }));
  else print(changes.map((change) => linesOf(change, false)).join("\n") || "Purser is as the file says.");
  if (changes.length > 0) process.exitCode = 2;
}

const codeOf = (error: unknown) => (typeof error === "object" && error !== null && "code" in error ? error.code : "");

const AUDIT_PAGE_MAX = 100;

/** Returns the newest audit entries of the application, newest first, and the number of the first, as all count from 1 without gaps. */
async function readAudit({ admin, appId }: Target, limit: number) {
  const { entries, response } = await admin.listAudit({ appId, limit });
  const newest = response.headers.get("latest-audit-entry");
  if (newest === null)
    throw new CliError("Purser does not tell its latest audit entry: deploy the version of this tool.");
  return { entries, newest: Number(newest) };
}
const newestOfAudit = async (target: Target): Promise<number> => (await readAudit(target, 1)).newest;

/** Throws the error that says what changed since the plan was made, and by whom. */
async function failAsChanged(
  target: Target,
  section: string,
  sincePlan: number,
  own: ReadonlySet<string>,
): Promise<never> {
  const pattern = SECTIONS[section]?.audit ?? /./;
  const { entries, newest } = await readAudit(target, AUDIT_PAGE_MAX);
  const told = entries
    .slice(0, newest - sincePlan)
    .filter(({ action, target: what }) => pattern.test(action) && (what === null || !own.has(what)))
    .map(({ at, by, action, target: what }) => `  ${at} ${action} ${what} by ${by}`);
  throw new CliError(
    [
      `The ${section} changed meanwhile, so nothing more was done:`,
      ...told,
      "Run `purser diff`, then push again.",
    ].join("\n"),
  );
}

async function confirm(count: number): Promise<boolean> {
  if (!process.stdin.isTTY) throw new CliError("There is no terminal to ask in. Use --yes, or --dry-run.");
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await terminal.question(`Make ${count === 1 ? "this change" : `these ${count} changes`}? [y/N] `);
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

function keepSecret(file: string | undefined, what: string, secret: string): void {
  if (file === undefined) {
    process.stderr.write("Its signing secret is not shown. Rotate it in the dashboard, or use --secrets-file.\n");
    return;
  }
  appendFileSync(file, `${what}\t${secret}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
}

const TRIES_MAX = 20;
/**
 * Makes a change only if its section is as it was when the plan was made, but for the changes before. Purser rejects it if anything was
 * changed after the section was read; where that was something else, it is read and tried again.
 */
async function makeIfUnchanged(
  target: Target,
  { section, what, run }: Change,
  known: State | undefined,
  fail: () => Promise<never>,
): Promise<string | undefined> {
  for (let tries = 1; ; tries++) {
    const call = { ifLatestAuditEntry: await newestOfAudit(target) };
    const now = (await readStates(target, [section]))[section];
    if (known === undefined || now === undefined || fingerprint(now) !== fingerprint(known)) return fail();
    try {
      return await run({ ...target, call }, now);
    } catch (error) {
      if (codeOf(error) === "changed_meanwhile" && tries < TRIES_MAX) continue;
      const reason = error instanceof Error ? error.message : error;
      throw new CliError(`${what}: ${reason} Run push again when it is mended.`);
    }
  }
}

/** Makes the changes one by one, each only if nobody else changed its section. */
async function apply(
  target: Target,
  changes: readonly Change[],
  before: States,
  sincePlan: number,
  { secretsFile, json }: PushOptions,
): Promise<void> {
  const states: Record<string, State> = { ...before };
  const own = new Set<string>();
  for (const change of changes) {
    const { section, what } = change;
    const known = states[section];
    const fail = () => failAsChanged(target, section, sincePlan, own);
    const secret = await makeIfUnchanged(target, change, known, fail);
    if (json !== true) print(`Done: ${change.action} ${what}.`);
    if (secret !== undefined) keepSecret(secretsFile, what, secret);
    const after = (await readStates(target, [section]))[section];
    const id = after === undefined ? undefined : change.idIn(after);
    if (id !== undefined) own.add(id);
    if (known === undefined || after === undefined || !change.isAlone(known, after)) return fail();
    states[section] = after;
  }
}

export async function push(options: PushOptions): Promise<void> {
  const { file, json, yes, dryRun, prune = false, createApp = false, app: named, mode } = options;
  const config = readConfig(file);
  const names = sectionsOf(config);
  const found = await searchTarget(options);
  const isMissing = "missing" in found;
  if (isMissing && (!createApp || named === undefined)) throw new CliError(found.missing);
  const app = isMissing ? (named ?? "") : found.appName;
  const sincePlan = isMissing ? 0 : await newestOfAudit(found);
  const states = isMissing ? unsetStates(names) : await readStates(found, names);
  const all = planOf(config, states);
  const changes = all.filter(({ isPruning }) => prune || !isPruning);
  if (json !== true) {
    print(`${app}, ${mode} mode`);
    const lines = [...(isMissing ? [`+ create application "${app}"`] : []), ...all.map((each) => linesOf(each, prune))];
    print(lines.join("\n") || "Purser is as the file says.");
  }
  const count = changes.length + Number(isMissing);
  const isAgreed = count > 0 && dryRun !== true && (yes === true || (await confirm(count)));
  if (isAgreed) {
    const target = isMissing ? await createTarget(app, mode) : found;
    const before = isMissing ? await readStates(target, names) : states;
    await apply(target, changes, before, isMissing ? await newestOfAudit(target) : sincePlan, options);
  }
  if (json === true) print(JSON.stringify({ app, mode, changes: changes.map(plain), isDone: isAgreed || count === 0 }));
}
