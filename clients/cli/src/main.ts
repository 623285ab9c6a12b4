import { Command, InvalidArgumentError, Option } from "commander";
import { CONFIG_FILE } from "./config-file.ts";
import { diff, pull, push } from "./configuration.ts";
import { importBalances } from "./import.ts";
import { importPrices } from "./prices.ts";

const HELP = `
The environment says which Purser, with which key:
  PURSER_URL         its address, such as https://purser.example.com
  PURSER_ADMIN_KEY   an administration key, or the admin token
  PURSER_SECRET_KEY  for import: a secret key of the application, sk_…

Examples:
  purser pull --app Chat --mode test          # writes ${CONFIG_FILE}
  purser diff --app Chat --mode live          # ends with 2 where something differs
  purser push --app Chat --mode live          # shows the changes, asks, and makes them
  purser import balances.csv --app Chat --mode live --dry-run`;

/** The mode has no default, because live credits are money. */
const withTarget = (command: Command): Command =>
  command
    .option("--app <name>", "the application, by name or id; not needed if there is one")
    .addOption(new Option("--mode <mode>", "which environment of it").choices(["live", "test"]).makeOptionMandatory());

const withFile = (command: Command): Command =>
  withTarget(command).option("--file <file>", "the file of settings", CONFIG_FILE).option("--json", "print JSON");

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,2}$/.test(text)) throw new InvalidArgumentError("It is a number from 1 to 999.");
  return Number(text);
}

function program(): Command {
  const purser = new Command("purser")
    .description("Purser's settings as a file, imports of balances, and prices from public lists.")
    .addHelpText("after", HELP)
    .showHelpAfterError("(purser --help tells more)");
  withFile(purser.command("pull").description("Write the settings of an application into a file.")).action(pull);
  withFile(
    purser.command("diff").description("Show where Purser differs from the file. Ends with 2 if it does."),
  ).action(diff);
  withFile(purser.command("push").description("Make Purser as the file says. Balances are never touched."))
    .option("--yes", "do not ask")
    .option("--dry-run", "show what would be done, and do nothing")
    .option("--prune", "archive or delete what the file lacks")
    .option("--create-app", "create the application if there is none of this name")
    .option("--secrets-file <file>", "append the signing secrets of new webhook endpoints to this file")
    .action(push);
  withTarget(purser.command("import").description("Grant balances from a CSV or NDJSON file, each once."))
    .argument("<file>", "with the columns userId, pack or unit, remaining, ref, and perhaps expiresAt")
    .option("--dry-run", "check the file, show what would be granted, and grant nothing")
    .option("--parallel <n>", "how many grants are sent at once", wholeNumber, 16)
    .option("--json", "print JSON")
    .action(importBalances);
  purser
    .command("prices")
    .description("Prices of models.")
    .command("import")
    .description("Write prices and costs from a public list, which you downloaded, into the file of settings.")
    .argument("<file>", "LiteLLM's model_prices_and_context_window.json, or models.dev's api.json")
    .addOption(
      new Option("--from <source>", "whose list it is").choices(["litellm", "models.dev"]).makeOptionMandatory(),
    )
    .requiredOption("--models <globs...>", "the models, such as 'gpt-5*' or 'anthropic/claude-*'")
    .option("--markup <factor>", "the price is the cost times this", "1")
    .addOption(
      new Option("--unit <unit>", "the unit of the prices")
        .choices(["count", "tokens", "seconds", "cents"])
        .default("cents"),
    )
    .option("--per-cent <amount>", "how much of the unit is worth a cent", "1")
    .option("--event <glob>", "the events that the rules are for; all without it")
    .option("--file <file>", "the file of settings", CONFIG_FILE)
    .option("--json", "print JSON")
    .action(importPrices);
  return purser;
}

/** Settles when the command has ended. A test that runs many in its own process waits for it. */
export const ended: Promise<unknown> = program()
  .parseAsync()
  .catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
    process.exitCode = 1;
  });
