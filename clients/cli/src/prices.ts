import { existsSync, readFileSync } from "node:fs";
import { type Config, checkConfig, type Item, readConfig, writeConfig } from "./config-file.ts";
import { CliError } from "./connection.ts";
import { type Decimal, decimal, parseWithTexts, roundUp, textOf, times } from "./decimal.ts";
import { type Costs, type ListedModel, modelsOf } from "./price-lists.ts";

interface PriceOptions {
  readonly from: "litellm" | "models.dev";
  readonly models: readonly string[];
  readonly markup: string;
  readonly unit: string;
  readonly perCent: string;
  readonly event?: string;
  readonly file: string;
  readonly json?: boolean;
}

const UNITS = 1_000_000;
const CENTS_OF_A_DOLLAR: Decimal = { digits: 100n, scale: 0 };
const DECIMALS_MAX = 12;
/** The meters whose sum is the prompt. */
const PROMPT = ["input", "cacheRead", "cacheWrite", "cacheWrite1h", "inputAudio"];

function positive(text: string, name: string): Decimal {
  const found = decimal(text);
  if (found === null || found.digits <= 0n) throw new CliError(`${name} is a number above 0, such as 1.3.`);
  return found;
}

/** Returns whether a name matches a glob, in which only `*` has a meaning. */
function matches(name: string, glob: string): boolean {
  const [first = "", ...rest] = glob.split("*");
  if (!name.startsWith(first)) return false;
  if (rest.length === 0) return name === first;
  let at = first.length;
  for (const part of rest.slice(0, -1)) {
    const found = name.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  const last = rest.at(-1) ?? "";
  return name.length - last.length >= at && name.endsWith(last);
}

/** JSON's numbers are read as doubles, which keep all decimals of at most 15 digits. */
const numberOf = (amount: Decimal): number => Number(textOf(roundUp(amount, DECIMALS_MAX)));

const perOf = (costs: Costs, factor: Decimal): Item =>
  Object.fromEntries(
    Object.entries(costs).map(([meter, cost]) => [meter, { amount: numberOf(times(cost, factor)), units: UNITS }]),
  );

/** Returns a model's rules: those of larger prompts first, because the first that matches counts. */
function rulesOf({ model, costs, steps }: ListedModel, factor: Decimal, head: Item): Item[] {
  let all = costs;
  const dearer = steps
    .toSorted((a, b) => a.above - b.above)
    .map(({ above, costs: own }) => {
      // A step that leaves out a meter costs what the step below it costs.
      all = { ...all, ...own };
      return {
        ...head,
        model,
        when: { meters: PROMPT.filter((meter) => meter in all), above },
        per: perOf(all, factor),
      };
    })
    .toReversed();
  return [...dearer, { ...head, model, per: perOf(costs, factor) }];
}

/** Returns the models to import, and why the others that were asked for are not. */
function choose(models: readonly ListedModel[], globs: readonly string[]) {
  const asked = models.filter(({ name }) => globs.some((glob) => matches(name, glob)));
  const problems = globs
    .filter((glob) => !models.some(({ name }) => matches(name, glob)))
    .map((glob) => `${glob}: no model in the list has such a name.`);
  const chosen: ListedModel[] = [];
  for (const each of asked) {
    const { name, model, costs, unmapped, tiers } = each;
    if (costs.input === undefined || model.includes("*")) {
      problems.push(`${name}: not imported, because the list has no price above 0 of its input.`);
      continue;
    }
    if (chosen.some((one) => one.model === model)) {
      problems.push(`${name}: not imported, because another provider's ${model} is. Name the provider in --models.`);
      continue;
    }
    if (unmapped.length > 0)
      problems.push(`${name}: ${unmapped.join(", ")} not mapped. Usage of such a meter has no price.`);
    if (tiers.length > 0)
      problems.push(`${name}: the other prices of ${tiers.join(", ")} not mapped. Such usage has the standard price.`);
    chosen.push(each);
  }
  return { chosen, problems };
}

export async function importPrices(file: string, options: PriceOptions): Promise<void> {
  if (!existsSync(file)) throw new CliError(`There is no file ${file}. Download it first.`);
  const [markup, perCent] = [positive(options.markup, "--markup"), positive(options.perCent, "--per-cent")];
  let list: unknown;
  try {
    list = parseWithTexts(readFileSync(file, "utf8"));
  } catch {
    throw new CliError(`${file} is not JSON.`);
  }
  const { chosen, problems } = choose(modelsOf(options.from, list), options.models);
  const head = options.event === undefined ? {} : { event: options.event };
  const factor = times(times(CENTS_OF_A_DOLLAR, perCent), markup);
  const rules = chosen.flatMap((model) => rulesOf(model, factor, { ...head, unit: options.unit }));
  const costs = chosen.flatMap((model) => rulesOf(model, CENTS_OF_A_DOLLAR, head));
  const config: Config = existsSync(options.file) ? readConfig(options.file) : {};
  const before = (config.prices ?? {}) as { readonly rules?: Item[]; readonly costs?: Item[] };
  const names = new Set(chosen.map(({ model }) => model));
  /** Rules of these models in the same unit and for the same events are replaced. */
  const others = (all: readonly Item[] = [], unit?: string) =>
    all.filter((rule) => !(names.has(String(rule.model)) && rule.event === options.event && rule.unit === unit));
  const prices = {
    ...before,
    rules: [...rules, ...others(before.rules, options.unit)],
    costs: [...costs, ...others(before.costs)],
  };
  const written = { ...config, prices };
  if (chosen.length > 0) {
    checkConfig(written, "The file would not be valid");
    writeConfig(options.file, written);
  }
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  const imported = chosen.map(({ name }) => name);
  if (options.json === true) process.stdout.write(`${JSON.stringify({ file: options.file, imported, problems })}\n`);
  else process.stdout.write(`Wrote the prices of ${imported.length} models to ${options.file}.\n`);
  if (imported.length === 0) process.exitCode = 1;
}
