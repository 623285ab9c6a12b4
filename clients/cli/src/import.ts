import { appendFileSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { type Purser, PurserError } from "purser-client";
import { type Balance, balanceOf, type PackOfFile } from "./balance.ts";
import { CliError, connectPurser, findTarget, secretKeyOf, type Target, type TargetOptions } from "./connection.ts";
import { add, type Decimal, textOf } from "./decimal.ts";
import { KeySet } from "./key-set.ts";
import { rowsOf } from "./rows.ts";
import { type Done, type Outcome, Tally } from "./tally.ts";

interface ImportOptions extends TargetOptions {
  readonly dryRun?: boolean;
  readonly parallel: number;
  readonly json?: boolean;
}

/** Errors of one line. All others end the import, which goes on where it was when it is run again. */
const isOfLine = ({ status }: PurserError) => [400, 402, 404, 409, 413].includes(status);

const PROGRESS_EVERY_MS = 1_000;

/** How far an import is. It is kept in a file beside the imported one while it runs. */
interface Progress extends Done {
  readonly of: string;
  /** The server's time before the first line, also where the import was cut and goes on. */
  readonly startedAt: number;
}

async function readPacks({ admin, appId }: Target) {
  const { packs, response } = await admin.listPacks({ appId });
  const serverTime = Date.parse(response.headers.get("date") ?? "");
  const active: PackOfFile[] = packs
    .filter(({ archivedAt }) => archivedAt === null)
    .map(({ packId, packName, unit, items }) => ({ packId, packName, unit, hasItems: items.length > 0 }));
  return { packs: active, now: Number.isNaN(serverTime) ? Date.now() : serverTime };
}

const quoted = (text: string) => `"${text.replaceAll('"', '""').replaceAll(/[\r\n]+/g, " ")}"`;

class Import {
  readonly #progressFile: string;
  readonly #refusedFile: string;
  readonly progress: Progress;
  /** Whether an earlier run of this import was cut. It may have granted later lines than it noted. */
  readonly isResumed: boolean;
  readonly #tally: Tally;
  readonly sums = new Map<string, Decimal>();
  #savedAt = 0;

  constructor(file: string, { appId, mode }: Target, startedAt: number, { dryRun = false }: ImportOptions) {
    const { size, mtimeMs } = statSync(file);
    const of = JSON.stringify([size, mtimeMs, appId, mode, process.env.PURSER_URL, dryRun]);
    this.#progressFile = `${file}.progress.json`;
    this.#refusedFile = `${file}.refused.csv`;
    const saved: Progress | null = existsSync(this.#progressFile)
      ? JSON.parse(readFileSync(this.#progressFile, "utf8"))
      : null;
    this.isResumed = saved?.of === of;
    this.progress = saved?.of === of ? saved : { of, startedAt, line: 0, granted: 0, repeated: 0, refused: 0 };
    // Later lines are read again.
    const isKept = this.progress.line > 0 && existsSync(this.#refusedFile);
    const refused = isKept ? readFileSync(this.#refusedFile, "utf8").split("\n").slice(1, -1) : [];
    const kept = refused.filter((each) => Number.parseInt(each, 10) <= this.progress.line);
    this.#tally = new Tally(this.progress);
    writeFileSync(this.#refusedFile, ["line,ref,reason", ...kept, ""].join("\n"));
  }

  get refusedFile(): string {
    return this.#refusedFile;
  }

  begin(line: number): void {
    this.#tally.begin(line);
  }

  /** Notes what became of a line, and from time to time how far all lines are. */
  end(line: number, outcome: Outcome, json: boolean): void {
    this.#tally.end(line, outcome);
    if (Date.now() - this.#savedAt < PROGRESS_EVERY_MS) return;
    const isFirst = this.#savedAt === 0;
    this.#savedAt = Date.now();
    this.save();
    // A later line may end before the first: then nothing is counted yet.
    if (json || isFirst) return;
    const { granted, repeated, refused } = this.progress;
    process.stderr.write(`Line ${this.progress.line}: ${granted} granted, ${repeated} before, ${refused} rejected.\n`);
  }

  /** Replaces the file at once, so that a kill leaves the old one. */
  save(): void {
    writeFileSync(`${this.#progressFile}.half`, JSON.stringify(this.progress));
    renameSync(`${this.#progressFile}.half`, this.#progressFile);
  }

  refuse(line: number, ref: string, reason: string): "refused" {
    appendFileSync(this.#refusedFile, `${line},${quoted(ref)},${quoted(reason)}\n`);
    return "refused";
  }

  count(balance: Balance): void {
    const before = this.sums.get(balance.pack.packName) ?? { digits: 0n, scale: 0 };
    this.sums.set(balance.pack.packName, add(before, balance.remaining));
  }

  finish(): void {
    rmSync(this.#progressFile, { force: true });
    if (this.progress.refused === 0) rmSync(this.#refusedFile, { force: true });
  }
}

type Grant = (balance: Balance) => Promise<Outcome>;

/**
 * Whether this import granted a balance that its answer calls a repetition: an earlier try of it did whose answer was lost, or a run
 * that was cut.
 */
async function isOwnGrant(purser: Purser, { userId, pack, externalRef }: Balance, run: Import): Promise<boolean> {
  const { credits } = await purser.listBalances({ userId, externalRef });
  const granted = credits.find(({ packId }) => packId === pack.packId);
  return granted !== undefined && Date.parse(granted.grantedAt) >= run.progress.startedAt;
}

function granting(run: Import, key: string): Grant {
  return async (balance) => {
    const { line, userId, pack, remaining, expiresAt, externalRef } = balance;
    let tries = 0;
    const purser = connectPurser(key, () => {
      tries += 1;
    });
    try {
      const quantity = Number(textOf(remaining));
      const granted = await purser.grantCredits({ userId, packId: pack.packId, quantity, expiresAt, externalRef });
      if (!granted.isReplayed) return "granted";
      // The header warns about a repetition with another quantity.
      if (!granted.response.headers.has("purser-warning"))
        return (tries > 1 || run.isResumed) && (await isOwnGrant(purser, balance, run)) ? "granted" : "repeated";
      return run.refuse(line, externalRef.slice(7), "This ref was imported before with another amount, which stands.");
    } catch (error) {
      if (!(error instanceof PurserError) || !isOfLine(error)) throw error;
      if (error.code === "credit_pack_not_found")
        throw new CliError("PURSER_SECRET_KEY is not of this application, or the pack was archived meanwhile.");
      return run.refuse(line, externalRef.slice(7), `${error.code}: ${error.message}`);
    }
  };
}

/** Sends the balances of a file, `parallel` at once. Rejects with the first error that is not of a line. */
async function sendAll(file: string, run: Import, packs: readonly PackOfFile[], grant: Grant, options: ImportOptions) {
  const keys = new KeySet();
  const sending = new Set<Promise<void>>();
  const done = run.progress.line;
  let failure: unknown;
  for await (const row of rowsOf(file)) {
    const balance = balanceOf(row, packs);
    const isNew =
      typeof balance === "string" ||
      keys.add(JSON.stringify([balance.userId, balance.pack.packId, balance.externalRef]));
    if (typeof balance !== "string" && isNew) run.count(balance);
    if (row.line <= done) continue;
    if (failure !== undefined) break;
    run.begin(row.line);
    if (typeof balance === "string" || !isNew) {
      const reason = typeof balance === "string" ? balance : "The user has this ref in an earlier line.";
      run.end(row.line, run.refuse(row.line, row.fields.ref ?? "", reason), options.json === true);
      continue;
    }
    const sent = grant(balance).then(
      (outcome) => run.end(row.line, outcome, options.json === true),
      (error) => {
        failure ??= error;
      },
    );
    const tracked: Promise<void> = sent.finally(() => sending.delete(tracked));
    sending.add(tracked);
    if (sending.size >= options.parallel) await Promise.race(sending);
  }
  await Promise.all(sending);
  if (failure === undefined) return;
  run.save();
  const reason = failure instanceof Error ? failure.message : String(failure);
  throw new CliError(`The import was cut: ${reason} Run it again, and it goes on after line ${run.progress.line}.`);
}

/** Grants the balances of a file, each once. Ends with 2 where lines were rejected. */
export async function importBalances(file: string, options: ImportOptions): Promise<void> {
  if (!existsSync(file)) throw new CliError(`There is no file ${file}.`);
  const key = options.dryRun === true ? null : secretKeyOf(options.mode);
  const target = await findTarget(options);
  const { packs, now } = await readPacks(target);
  const run = new Import(file, target, now, options);
  const check: Grant = async () => "granted";
  await sendAll(file, run, packs, key === null ? check : granting(run, key), options);
  run.finish();
  const { granted, repeated, refused } = run.progress;
  if (refused > 0) process.exitCode = 2;
  const sums = Object.fromEntries([...run.sums].map(([pack, sum]) => [pack, textOf(sum)]));
  if (options.json === true) {
    const refusedFile = refused > 0 ? run.refusedFile : null;
    return void process.stdout.write(
      `${JSON.stringify({ granted, repeated, refused, refusedFile, sums, isDryRun: options.dryRun === true })}\n`,
    );
  }
  const listed = Object.entries(sums).map(([pack, sum]) => `  ${pack}: ${sum}`);
  const verb =
    options.dryRun === true ? "would be granted, unless they were before" : `granted, ${repeated} were before`;
  const tail =
    refused > 0 ? `${refused} lines are rejected, with reasons in ${run.refusedFile}.` : "No line is rejected.";
  process.stdout.write(`${[`${granted} balances ${verb}. In this file:`, ...listed, tail].join("\n")}\n`);
}
