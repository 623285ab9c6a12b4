import { PERSON, USER } from "./seed.mjs";
import { bold, cyan, dim, green } from "./terminal.mjs";
import { userToken } from "./user-token.mjs";

const JSON_HEADER = "-H 'content-type: application/json'";

/** The story of README.md as lines that run in a shell, against this very server. */
async function storyLines(url, demo) {
  const secret = '-H "authorization: Bearer $SK"';
  return [
    ["Set these first", `URL=${url}`, `SK=${demo.keys.sk_live}`, `PK=${demo.keys.pk_live}`],
    [null, `USER_TOKEN=${await userToken(demo.endUserSecret, USER)}`],
    [
      "A payment came in: grant the Starter pack. Send it twice; it lands once",
      `curl -s $URL/api/v1/credits/grant ${secret} ${JSON_HEADER} -d '{"userId":"${USER}","packId":"starter","externalRef":"order-1001"}'`,
    ],
    [
      "What a browser shows its user: a publishable key and the user's own token",
      `curl -s "$URL/api/v1/credits?userId=${USER}" -H "authorization: Bearer $PK" -H "x-user-token: $USER_TOKEN"`,
    ],
    [
      "The user chats: 1,200 tokens are drawn down, once",
      `curl -s $URL/api/v1/usage/events ${secret} ${JSON_HEADER} -d '{"eventId":"chat-1","userId":"${USER}","event":"chat.completion","model":"small-2","quantities":{"tokens":1200,"cents":0.36}}'`,
    ],
    ["The ledger tells every motion", `curl -s "$URL/api/v1/credits/history?userId=${USER}" ${secret}`],
    [
      "Take one balance back",
      `BALANCE=$(curl -s "$URL/api/v1/credits?userId=${USER}" ${secret} | grep -o 'crb_[0-9A-Za-z]*' | tail -1)`,
      `curl -s $URL/api/v1/credits/revoke ${secret} ${JSON_HEADER} -d '{"balanceId":"'$BALANCE'","reason":"order refunded"}'`,
    ],
    [
      "A person asks what you hold about them: mint a link, open it",
      `LINK=$(curl -s $URL/api/v1/export-person ${secret} ${JSON_HEADER} -d '{"distinctId":"${PERSON}"}' | grep -o 'http[^"]*')`,
      `curl -s "$LINK" -o ${PERSON}.json && head -c 400 ${PERSON}.json`,
    ],
  ];
}

/** Prints where Purser is, the demonstration's keys, and the story ready to paste. */
export async function tellStory(url, demo, adminToken) {
  const lines = [
    "",
    `${green("●")} ${bold("Purser is up")} at ${cyan(url)}`,
    "",
    `  reference      ${url}/docs`,
    `  dashboard      ${url}/admin`,
    `  admin token    ${adminToken}`,
    "",
    `  demonstration  ${demo.appId} ${dim("(packs Starter and Top-up)")}`,
    ...Object.entries(demo.keys).map(([name, key]) => `  ${name.padEnd(13)}  ${key}`),
    "",
    bold("  The story, ready to paste"),
  ];
  for (const [title, ...commands] of await storyLines(url, demo)) {
    if (title !== null) lines.push("", dim(`  # ${title}`));
    lines.push(...commands.map((command) => `  ${command}`));
  }
  lines.push(
    "",
    `  ${bold("npm run demo")} in another terminal walks all of it. ${dim("Ctrl-C stops the server.")}`,
    "",
  );
  console.log(lines.join("\n"));
}
