import { rememberPerObject } from "./lib/bounded-memory.ts";

/** The settings of the deployment. A missing or weak setting switches its feature off. */
export interface Settings {
  /** Null: administration routes return 404. */
  readonly adminToken: string | null;
  /** Null: exports return `export_unavailable`. */
  readonly exportSecrets: { readonly current: string; readonly previous: string | null } | null;
  /** They seal the stored secrets. Null: storing or using a secret returns `secrets_unavailable`. */
  readonly settingsSecrets: { readonly current: string; readonly previous: string | null } | null;
  /** They hash erased ids (E4). Null: nobody can be erased, and while tombstones exist nothing is written for an id. */
  readonly erasureSecrets: { readonly current: string; readonly previous: string | null } | null;
  /** The origin of download links: `https://host[:port]`, or `request` for that of each request. Null: it is malformed. */
  readonly publicOrigin: string | null;
  readonly testBalanceQuota: number;
  /** After how many days analytics events are deleted (E8). Null: never. */
  readonly analyticsRetentionDays: number | null;
  /** How many days D1's point-in-time recovery reaches back on the deployment's plan (E6). */
  readonly recoveryDays: 7 | 30;
  /** The maximum size of a database. Near it analytics are rejected, so that the books can still grow (L3). */
  readonly databaseBytesMax: number;
  /** The binding of the database in which new applications are created. */
  readonly newAppsDatabase: string;
  /**
   * Cloudflare Access in front of the dashboard: a person whom it lets in is signed in. Null: the administrator's token signs
   * in.
   */
  readonly access: { readonly teamUrl: string; readonly audience: string } | null;
  /** Whether Cloudflare sets `cf-connecting-ip`. If not, the header comes from the caller, and no address is trusted. */
  readonly isBehindCloudflare: boolean;
}

const ADMIN_TOKEN_CHARACTERS_MIN = 32;
const EXPORT_SECRET_CHARACTERS_MIN = 16;
const SETTINGS_SECRET_CHARACTERS_MIN = 32;
const ERASURE_SECRET_CHARACTERS_MIN = 32;
const TEST_BALANCE_QUOTA_DEFAULT = 1_000;
/** The limit of D1. */
const DATABASE_BYTES_MAX_DEFAULT = 10_000_000_000;

// wrangler types every secret as `string`, but a secret that was never set is undefined.
const configuredSecret = (value: string | undefined, charactersMin: number): string | null =>
  value !== undefined && [...value].length >= charactersMin ? value : null;

/** Returns a secret and the previous one. Null when there is no current secret. */
function rotatingSecret(now: string | undefined, before: string | undefined, charactersMin: number) {
  const current = configuredSecret(now, charactersMin);
  // The previous secret must differ from the current one; otherwise every sealed text would be sealed again forever.
  return current === null
    ? null
    : { current, previous: before === now ? null : configuredSecret(before, charactersMin) };
}

/** Reads the Access settings. The domain is `myteam.cloudflareaccess.com`, with or without `https://`. */
function readAccess(teamDomain = "", audience = ""): Settings["access"] {
  if (teamDomain === "" || audience === "") return null;
  const teamUrl = /^https?:\/\//.test(teamDomain) ? teamDomain : `https://${teamDomain}`;
  return { teamUrl: teamUrl.replace(/\/+$/, ""), audience };
}

/** Returns `request` when nothing is set, and null for text that is not exactly one origin. */
function readOrigin(text = ""): Settings["publicOrigin"] {
  if (text === "") return "request";
  const origin = URL.canParse(text) ? new URL(text).origin : null;
  return origin !== null && /^https?:/.test(origin) && [origin, `${origin}/`].includes(text.toLowerCase())
    ? origin
    : null;
}

/** Returns null, and logs a line, for text that is not a whole number of at least 1. */
function readRetention(text = ""): Settings["analyticsRetentionDays"] {
  if (text === "") return null;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  console.error(JSON.stringify({ level: "error", code: "setting_malformed", setting: "ANALYTICS_RETENTION_DAYS" }));
  return null;
}

/** Returns the 30 days of the platform's paid plan, and logs a line, for text that is neither `7` nor `30`. */
function readRecoveryDays(text = ""): Settings["recoveryDays"] {
  if (text === "7") return 7;
  if (text !== "" && text !== "30") {
    console.error(JSON.stringify({ level: "error", code: "setting_malformed", setting: "D1_RECOVERY_DAYS" }));
  }
  return 30;
}

/** Returns the default, and logs a line, for text that is not a whole number of at least 1. */
function readDatabaseBytesMax(text = ""): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  if (text !== "") {
    console.error(JSON.stringify({ level: "error", code: "setting_malformed", setting: "DATABASE_BYTES_MAX" }));
  }
  return DATABASE_BYTES_MAX_DEFAULT;
}

/** Reads the settings, once for each object of bindings, which all requests of an isolate share. */
export const readSettings = rememberPerObject((env: Partial<Env>): Settings => {
  const quota = env.TEST_BALANCE_QUOTA;
  return {
    adminToken: configuredSecret(env.ADMIN_TOKEN, ADMIN_TOKEN_CHARACTERS_MIN),
    exportSecrets: rotatingSecret(
      env.ANALYTICS_EXPORT_SECRET,
      env.ANALYTICS_EXPORT_SECRET_PREVIOUS,
      EXPORT_SECRET_CHARACTERS_MIN,
    ),
    settingsSecrets: rotatingSecret(env.SETTINGS_SECRET, env.SETTINGS_SECRET_PREVIOUS, SETTINGS_SECRET_CHARACTERS_MIN),
    erasureSecrets: rotatingSecret(env.ERASURE_SECRET, env.ERASURE_SECRET_PREVIOUS, ERASURE_SECRET_CHARACTERS_MIN),
    publicOrigin: readOrigin(env.PUBLIC_ORIGIN),
    testBalanceQuota: quota !== undefined && /^\d{1,9}$/.test(quota) ? Number(quota) : TEST_BALANCE_QUOTA_DEFAULT,
    analyticsRetentionDays: readRetention(env.ANALYTICS_RETENTION_DAYS),
    recoveryDays: readRecoveryDays(env.D1_RECOVERY_DAYS),
    databaseBytesMax: readDatabaseBytesMax(env.DATABASE_BYTES_MAX),
    newAppsDatabase: env.NEW_APPS_DATABASE || "DB",
    isBehindCloudflare: env.BEHIND_CLOUDFLARE === "true",
    access: readAccess(env.ACCESS_TEAM_DOMAIN, env.ACCESS_AUD),
  };
});
