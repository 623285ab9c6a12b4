/**
 * `npm run screenshots`: takes the pictures of the dashboard and of the balance element, from the demonstration of the running
 * `npm start`. Remove `.wrangler/` and `.purser/` before that start, so that the pictures show nothing else.
 */
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { localSecrets, serverUrl } from "./local-state.mjs";
import { PERSON, readDemo, userToken } from "./seed.mjs";

const url = serverUrl();
const demo = readDemo();
if (demo === null) throw new Error("There is no demonstration. Run `npm start` in another terminal first.");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
});
/** Takes a picture of a page or of an element. */
async function take(shown, file) {
  await shown.screenshot({ path: `docs/${file}` });
  console.log(`docs/${file}`);
}
try {
  const shop = await browser.newPage({ viewport: { width: 560, height: 300 }, deviceScaleFactor: 2 });
  const token = await userToken(demo.endUserSecret, PERSON);
  const values = new URLSearchParams({ url, key: demo.keys.pk_live, user: PERSON, token });
  await shop.goto(`${pathToFileURL("examples/balance.html")}#${values}`);
  await shop.locator("purser-balance[data-state=ok], purser-balance[data-state=low]").waitFor();
  await take(shop, "balance-element.png");
  const page = await browser.newPage({ viewport: { width: 1_440, height: 900 }, colorScheme: "light" });
  await page.goto(`${url}/admin`);
  await page.getByLabel("Your name").fill("Ana");
  await page.getByLabel("Admin token").fill(localSecrets().ADMIN_TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Applications" }).waitFor();
  const open = (path) => page.goto(`${url}/admin/apps/${demo.appId}/live/${path}`);
  await open("overview");
  await take(page, "dashboard-overview.png");
  await open(`users?userId=${PERSON}`);
  await take(page, "dashboard-user.png");
  await page.getByRole("link", { name: "Timeline", exact: true }).click();
  await take(page.locator("#timeline"), "dashboard-timeline.png");
  await open("usage");
  await take(page, "dashboard-usage.png");
} finally {
  await browser.close();
}
