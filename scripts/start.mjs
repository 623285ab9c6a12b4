/** `npm start`: secrets, database, server and demonstration, from nothing; started again it keeps them all. */
import { localSecrets } from "./secrets.mjs";
import { ensureDemo } from "./seed.mjs";
import { tellStory } from "./story.mjs";
import { dim } from "./terminal.mjs";
import { assertPortFree, migrate, serve } from "./worker.mjs";

const MINUTE_MS = 60_000;

function readPort() {
  const text = process.env.PORT ?? "8787";
  const port = Number(text);
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  throw new Error(`PORT must be a port number, not "${text}".`);
}

/** Cron triggers do not fire on a local Worker, so their clock ticks here. */
function tick(url) {
  const timer = setInterval(() => fetch(`${url}/cdn-cgi/handler/scheduled`).catch(() => {}), MINUTE_MS);
  timer.unref();
}

async function main() {
  const port = readPort();
  await assertPortFree(port);
  const secrets = localSecrets();
  console.log(dim("Bringing the local database up to date …"));
  await migrate();
  console.log(dim("Starting the Worker …"));
  const { url, child, log } = await serve(port);
  const stop = () => child.kill("SIGINT");
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  child.once("exit", (code) => {
    if (code) console.error(`The Worker stopped with code ${code}; ${log} has what it said.`);
    process.exit(code ?? 0);
  });
  try {
    const { demo, isNew } = await ensureDemo(url, secrets.ADMIN_TOKEN);
    if (isNew) console.log(dim("Seeded the demonstration."));
    await tellStory(url, demo, secrets.ADMIN_TOKEN);
  } catch (error) {
    child.removeAllListeners("exit");
    stop();
    throw error;
  }
  tick(url);
}

main().catch((error) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
