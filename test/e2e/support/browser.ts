import { existsSync } from "node:fs";
import { type Browser, type BrowserServer, chromium } from "playwright-core";
import { inject } from "vitest";

/** The usual paths of Chromium; CHROMIUM_PATH overrides them. The shell takes half the CPU time. */
const PLACES = [
  process.env.CHROMIUM_PATH,
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];

/** The Chromium of this machine; null when there is none, and tests that need one are skipped. */
export const chromiumPath: string | null = PLACES.find((path) => path !== undefined && existsSync(path)) ?? null;

/** A suffix for the names of skipped tests. */
export const withoutChromium = chromiumPath === null ? " (SKIPPED: no Chromium here; set CHROMIUM_PATH)" : "";

/**
 * Starts the run's browser: headless, without requests of its own, with the same language and time zone on every machine. Returns
 * null where no Chromium is installed.
 */
export async function startBrowser(): Promise<BrowserServer | null> {
  if (chromiumPath === null) return null;
  return chromium.launchServer({
    executablePath: chromiumPath,
    env: { ...process.env, TZ: "UTC", LANG: "en_US.UTF-8", LANGUAGE: "en_US", LC_ALL: "en_US.UTF-8" },
    args: [
      "--no-sandbox",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
      "--disable-gpu",
      // Scripts run for a moment on each page, so optimising them takes longer than it saves.
      "--js-flags=--no-opt --no-maglev",
    ],
  });
}

/** Connects to the run's browser. Its `close` ends the connection, with the contexts that this test opened. */
export async function connectBrowser(): Promise<Browser> {
  const address = inject("browserAddress");
  if (address === null) throw new Error("There is no Chromium on this machine.");
  return chromium.connect(address);
}
