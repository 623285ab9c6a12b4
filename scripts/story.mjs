import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { PERSON, USER, userToken } from "./seed.mjs";
import { bold, cyan, dim, green } from "./terminal.mjs";

const PAGE = pathToFileURL(join(import.meta.dirname, "../examples/balance.html")).href;
const SECRET = '-H "authorization: Bearer $SK"';

/** One curl line. `-w '\n'` puts the shell's prompt on a new line. */
const get = (path, headers = SECRET) => `curl -sw '\\n' "$URL${path}" ${headers}`;
const post = (path, body) => {
  const json = typeof body === "string" ? body : `'${JSON.stringify(body)}'`;
  return `curl -sw '\\n' "$URL${path}" ${SECRET} -H 'content-type: application/json' -d ${json}`;
};

/**
 * The examples of README.md as lines for a shell, for this server. Ids are new at every start. Titles have no quotes or globs,
 * because a shell without comments at its prompt (zsh) would fail on them.
 */
function storyLines() {
  const run = randomBytes(3).toString("hex");
  const chat = { event: "chat.completion", model: "small-2", quantities: { tokens: 1200, cents: 0.36 } };
  const call = { event: "transcribe", quantities: { seconds: 600 } };
  return [
    [
      "A payment came in: grant the Starter pack. Sent twice, it is granted once",
      post("/api/v1/credits/grant", { userId: USER, packId: "starter", externalRef: `order-${run}` }),
    ],
    [
      "Read the balances from a browser, with a publishable key and the sign-in token of its user",
      get(`/api/v1/credits?userId=${USER}`, '-H "authorization: Bearer $PK" -H "x-user-token: $USER_TOKEN"'),
    ],
    [
      "Preview a debit: which balances would pay for a chat. Changes nothing",
      post("/api/v1/credits/plan", { userId: USER, ...chat }),
    ],
    [
      "The user chats: 1,200 tokens are debited. Sent twice, debited once",
      post("/api/v1/usage/events", { eventId: `chat-${run}`, userId: USER, ...chat }),
    ],
    [
      "The price is known only afterwards: reserve ten minutes, then commit the actual usage. The rest is returned",
      post("/api/v1/usage/reservations", { reservationId: `res_${run}`, userId: USER, ...call }),
      post(`/api/v1/usage/reservations/res_${run}/commit`, { eventId: `call-${run}`, quantities: { seconds: 431.5 } }),
    ],
    ["The ledger records every change, newest first", get(`/api/v1/credits/history?userId=${USER}`)],
    [
      "A refund: revoke one balance. Spent credits stay spent",
      `BALANCE=$(curl -s "$URL/api/v1/credits?userId=${USER}" ${SECRET} | grep -o 'crb_[0-9A-Za-z]*' | tail -1)`,
      post("/api/v1/credits/revoke", `'{"balanceId":"'$BALANCE'","reason":"order refunded"}'`),
    ],
    [
      "A person asks what you hold about them: create a link, and open it",
      `LINK=$(curl -s "$URL/api/v1/export-person" ${SECRET} -H 'content-type: application/json' -d '{"distinctId":"${PERSON}"}' | grep -o 'http[^"]*')`,
      `curl -sw '\\n' "$LINK" | cut -c 1-600`,
    ],
    [
      "A person asks to be forgotten: a preview. Without dryRun the data are erased",
      post("/api/v1/erase-person", { distinctId: PERSON, dryRun: true }),
    ],
  ];
}

/** Prints Purser's URL, the demo's keys, and the examples to paste. */
export async function printExamples(url, demo, adminToken) {
  const token = await userToken(demo.endUserSecret, USER);
  const fragment = new URLSearchParams({ url, key: demo.keys.pk_live, user: USER, token });
  const lines = [
    "",
    `${green("●")} ${bold("Purser is running")} at ${cyan(url)}`,
    "",
    `  reference    ${url}/docs`,
    `  dashboard    ${url}/admin`,
    `  admin token  ${adminToken}`,
    "",
    `  ${bold("Lighthouse")}, a demonstration ${dim(`(${demo.appId}, packs Starter and Top-up)`)}`,
    ...Object.entries(demo.keys).map(([name, key]) => `  ${name.padEnd(11)}  ${key}`),
    "",
    `  ${bold("The calls, ready to paste")}`,
    "",
    `URL=${url}`,
    `SK=${demo.keys.sk_live}`,
    `PK=${demo.keys.pk_live}`,
    `USER_TOKEN=${token}`,
  ];
  for (const [title, ...commands] of storyLines()) lines.push("", dim(`# ${title}`), ...commands);
  lines.push(
    "",
    `  ${bold("The same balance in a page")}`,
    `  ${dim(`${PAGE}#${fragment}`)}`,
    "",
    `  ${bold("npm run demo")} in another terminal sends all of these requests. ${dim("Ctrl-C stops the server.")}`,
    "",
  );
  console.log(lines.join("\n"));
}
