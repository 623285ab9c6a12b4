/** `npm start`: creates the secrets, the databases, the server and the demo. A later start keeps them. */
import { databaseCount, localConfig } from "./databases.mjs";
import { forgetServer, localSecrets, rememberServer } from "./local-state.mjs";
import { ensureDemo, findDemo, readDemo } from "./seed.mjs";
import { printExamples } from "./story.mjs";
import { dim } from "./terminal.mjs";
import { assertPortFree, migrate, serve, stopAll } from "./worker.mjs";

const MINUTE_MS = 60_000;

function readPort() {
  const text = process.env.PORT ?? "8787";
  const port = Number(text);
  if (/^\d+$/.test(text) && port > 0 && port < 65_536) return port;
  throw new Error(`PORT must be a port number, not "${text}".`);
}

let isStopping = false;

async function stop(exitCode) {
  if (isStopping) return;
  isStopping = true;
  await stopAll();
  forgetServer();
  process.exit(exitCode);
}

/** Stops the Worker when npm stops. npm's shell does not pass signals on, so its end is watched as well. */
function stopOnSignal() {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => stop(0));
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && stop(0), 500).unref();
  // A reader such as `head` may close the output.
  process.stdout.on("error", () => stop(0));
}

/** Runs the cron once a minute, because a local Worker has no cron triggers. */
function startCron(url) {
  const run = async () => {
    try {
      const { ok, status } = await fetch(`${url}/cdn-cgi/handler/scheduled`);
      if (!ok) console.error(`The scheduled run of the cron got ${status}.`);
    } catch {
      // No server listens during a build. The next call comes in a minute.
    }
  };
  // The first run sums the demonstration's usage.
  run();
  setInterval(run, MINUTE_MS).unref();
}

/** Serves the Worker, with the demonstration. Another Worker has seeded it, because this one has no clock that can be set. */
async function serveDemo(port, file, adminToken) {
  const start = async () => {
    console.log(dim("Starting the Worker …"));
    return serve(port, file);
  };
  if (readDemo() !== null) {
    const server = await start();
    const demo = await findDemo(server.url, adminToken);
    if (demo !== null) return { ...server, demo };
    await stopAll();
  }
  console.log(dim("Starting the Worker that seeds a demonstration …"));
  const { url } = await serve(port, file, "scripts/month-worker.mjs");
  const demo = await ensureDemo(url, adminToken);
  await stopAll();
  return { ...(await start()), demo };
}

async function main() {
  stopOnSignal();
  const port = readPort();
  await assertPortFree(port);
  const secrets = localSecrets();
  const config = localConfig(databaseCount());
  console.log(dim("Bringing the local databases up to date …"));
  await migrate(config);
  const { url, child, log, demo } = await serveDemo(port, config.file, secrets.ADMIN_TOKEN);
  child.once("exit", (code) => {
    if (isStopping) return;
    console.error(`The Worker stopped with code ${code}. Its output is in ${log}.`);
    stop(1);
  });
  rememberServer(url);
  await printExamples(url, demo, secrets.ADMIN_TOKEN);
  startCron(url);
}

main().catch((error) => {
  if (isStopping) return;
  console.error(error instanceof Error ? error.message : error);
  stop(1);
});
