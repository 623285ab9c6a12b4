import { canonical, without, withoutDefaults } from "./compare.ts";
import type { Item } from "./config-file.ts";
import { afterOwnChange, secretFor, type Target } from "./connection.ts";

/** A thing in Purser: its settings as in the file, and what is needed to change it. */
export interface Entry {
  readonly item: Item;
  readonly id: string;
  readonly row: Item;
}

/** A section of the file that lists things, each known by its name. */
export interface ListSection {
  readonly kind: "list";
  readonly title: string;
  readonly defaults: Item;
  /** Fields that cannot be changed: another value makes a new thing in the old one's place. */
  readonly fixed: readonly string[];
  readonly removal: "archive" | "delete";
  readonly audit: RegExp;
  readonly nameOf: (item: Item) => string;
  /** Makes items of the file that mean the same equal. */
  readonly normalise?: (item: Item) => Item;
  readonly read: (target: Target) => Promise<Entry[]>;
  /** Returns a secret that Purser made, if any. */
  readonly create: (target: Target, item: Item) => Promise<string | undefined>;
  readonly change: (target: Target, entry: Entry, item: Item) => Promise<unknown>;
  readonly remove: (target: Target, entry: Entry) => Promise<unknown>;
}

/** A section of the file that is one setting. */
export interface ValueSection {
  readonly kind: "value";
  readonly title: string;
  readonly defaults: Item;
  /** The setting of a new application. */
  readonly unset: unknown;
  readonly audit: RegExp;
  /** Makes values that mean the same equal: what is as by default in lists, and the case of names. */
  readonly normalise?: (value: Item) => Item;
  /** The setting as in the file, or null, and the number of its version where it has one. */
  readonly read: (target: Target) => Promise<{ readonly value: unknown; readonly version?: number }>;
  readonly set: (target: Target, value: unknown, version: number | undefined) => Promise<unknown>;
}

export type Section = ListSection | ValueSection;

/** Names of packs, limits and alerts are compared as Purser does. */
const folded = (name: unknown): string => String(name).normalize("NFKC").toLowerCase();

/** The file's items were checked by the schema, which is made from the operations' own bodies. */
const body = <Body>(item: Item): Body => item as Body;

/** Leaves out an empty list of items, and what is as by default in each item. */
function normalisePack({ items = [], ...pack }: Item): Item {
  const normal = (items as Item[]).map((each) => withoutDefaults(each, { matches: [], priority: 100 }));
  return normal.length > 0 ? { ...pack, items: normal } : pack;
}

function packItem(row: Item): Item {
  const items = (row.items as Item[]).map((each) => without(each, ["packItemId"]));
  const ofItems = items.length > 0 ? ["unit", "matches", "priority"] : [];
  return normalisePack({ ...without(row, ["packId", "createdAt", "archivedAt", "version", ...ofItems]), items });
}

/** Keeps the ids of items that stand in the same place, so that what was granted from them still belongs to them. */
const withItemIds = (items: readonly Item[], row: Item): Item[] =>
  items.map((each, at) => {
    const packItemId = (row.items as Item[])[at]?.packItemId;
    return packItemId === undefined ? each : { packItemId, ...each };
  });

const packs: ListSection = {
  kind: "list",
  title: "pack",
  defaults: { defaultExpiryDays: null, matches: [], priority: 100 },
  fixed: [],
  removal: "archive",
  audit: /^pack\./,
  nameOf: (item) => folded(item.packName),
  normalise: normalisePack,
  read: async ({ admin, appId }) =>
    (await admin.listPacks({ appId })).packs
      .filter(({ archivedAt }) => archivedAt === null)
      .map((row) => ({ item: packItem(row), id: row.packId, row })),
  create: async ({ admin, appId, call }, item) => {
    await admin.createPack(body({ appId, items: [], ...item }), call);
    return undefined;
  },
  change: ({ admin, appId, call }, { id, row }, item) => {
    const { items = [], ...rest } = { ...packs.defaults, ...item };
    const fields = (items as Item[]).length > 0 ? without(rest, ["unit", "matches", "priority"]) : rest;
    const changed = { ...fields, items: withItemIds(items as Item[], row) };
    return admin.updatePack(body({ appId, packId: id, version: row.version, ...changed }), call);
  },
  remove: ({ admin, appId, call }, { id }) => admin.archivePack({ appId, packId: id }, call),
};

const usageLimits: ListSection = {
  kind: "list",
  title: "usage limit",
  defaults: { matches: [], per: "user", timeZone: "UTC" },
  fixed: ["unit", "every", "matches", "per", "timeZone"],
  removal: "delete",
  audit: /^usage_limit\./,
  nameOf: (item) => folded(item.name),
  read: async ({ admin, appId, mode }) =>
    (await admin.listUsageLimits({ appId, mode })).limits.map((row) => ({
      // A window shorter than a day has no time zone.
      item: without(row, ["limitId", "mode", "createdAt", ...(row.timeZone === null ? ["timeZone"] : [])]),
      id: row.limitId,
      row,
    })),
  create: async ({ admin, appId, mode, call }, item) => {
    await admin.createUsageLimit(body({ appId, mode, ...item }), call);
    return undefined;
  },
  change: ({ admin, appId, call }, { id }, { name, amount }) =>
    admin.changeUsageLimit(body({ appId, limitId: id, name, amount }), call),
  remove: ({ admin, appId, call }, { id }) => admin.deleteUsageLimit({ appId, limitId: id }, call),
};

const alerts: ListSection = {
  kind: "list",
  title: "alert",
  defaults: { event: null },
  fixed: ["unit"],
  removal: "delete",
  audit: /^alert\./,
  nameOf: (item) => folded(item.name),
  read: async ({ admin, appId, mode }) =>
    (await admin.listAlerts({ appId, mode })).alerts.map((row) => ({
      item: without(row, ["alertId", "mode", "createdAt"]),
      id: row.alertId,
      row,
    })),
  create: async ({ admin, appId, mode, call }, item) => {
    await admin.createAlert(body({ appId, mode, ...item }), call);
    return undefined;
  },
  change: ({ admin, appId, call }, { id }, item) =>
    admin.changeAlert(body({ appId, alertId: id, event: null, ...without(item, ["unit"]) }), call),
  remove: ({ admin, appId, call }, { id }) => admin.deleteAlert({ appId, alertId: id }, call),
};

const webhooks: ListSection = {
  kind: "list",
  title: "webhook endpoint",
  defaults: { types: null, description: null, isEnabled: true },
  fixed: [],
  removal: "delete",
  audit: /^webhook\./,
  nameOf: (item) => String(item.url),
  read: async ({ admin, appId, mode }) => {
    const { webhooks: rows } = await admin.listWebhooks({ appId, mode });
    // A key without the scope `people` gets origins in place of URLs, by which no endpoint of the file is found. It is rejected here.
    if (rows.some(({ url }) => url === new URL(url).origin)) await admin.listPayments({ appId, mode, limit: 1 });
    return rows.map((row) => ({ item: without(row, ["webhookId", "mode", "createdAt"]), id: row.webhookId, row }));
  },
  create: async (target, item) => {
    const { admin, appId, mode, call } = target;
    const made = body<Parameters<typeof admin.createWebhook>[0]>({ appId, mode, ...without(item, ["isEnabled"]) });
    const { webhookId, secret } = await admin.createWebhook(made, call);
    const next = afterOwnChange(target).call;
    if (item.isEnabled === false) await admin.changeWebhook({ appId, webhookId, isEnabled: false }, next);
    return secret;
  },
  change: ({ admin, appId, call }, { id }, item) =>
    admin.changeWebhook(body({ appId, webhookId: id, ...webhooks.defaults, ...item }), call),
  remove: ({ admin, appId, call }, { id }) => admin.deleteWebhook({ appId, webhookId: id }, call),
};

const unitNames: ValueSection = {
  kind: "value",
  title: "unit names",
  defaults: {},
  unset: {},
  audit: /^unit_names\./,
  read: async ({ admin, appId, mode }) => ({ value: (await admin.getUnitNamesOfApp({ appId, mode })).names }),
  set: ({ admin, appId, mode, call }, names) => admin.setUnitNames(body({ appId, mode, names }), call),
};

const prices: ValueSection = {
  kind: "value",
  title: "price list",
  defaults: { costs: [], note: null },
  unset: { rules: [], costs: [], note: null },
  audit: /^prices\./,
  read: async ({ admin, appId, mode }) => {
    const { inForce, versions } = await admin.listPriceLists({ appId, mode, limit: 1 });
    const version = versions[0]?.version ?? 0;
    if (inForce === null) return { value: prices.unset, version };
    const { rules, costs, note } = await admin.getPriceList({ appId, mode, version: inForce });
    return { value: { rules, costs, note }, version };
  },
  set: ({ admin, appId, mode, call }, value, ifVersion) =>
    admin.setPrices(body({ appId, mode, ifVersion, ...(value as Item) }), call),
};

const expiryNotices: ValueSection = {
  kind: "value",
  title: "expiry notices",
  defaults: {},
  unset: [],
  audit: /^expiry_notices\./,
  read: async ({ admin, appId, mode }) => ({
    value: (await admin.getExpiryNotices({ appId, mode })).days.toSorted((a, b) => a - b),
  }),
  set: ({ admin, appId, mode, call }, days) => admin.setExpiryNotices(body({ appId, mode, days }), call),
};

const endUserAuth: ValueSection = {
  kind: "value",
  title: "end-user sign-in",
  defaults: { origins: [], claim: "sub", trustUnverified: false, trustUserWritten: false },
  unset: null,
  audit: /^end_user_auth\./,
  read: async ({ admin, appId, mode }) => ({ value: (await admin.getEndUserAuth({ appId, mode })).setting }),
  set: ({ admin, appId, mode, call }, value) => {
    const meaning = "the secret that your sign-in signs its tokens with";
    const isShared = value !== null && (value as Item).type === "hs256";
    const setting = isShared ? { ...(value as Item), secret: secretFor("PURSER_END_USER_SECRET", meaning) } : value;
    return admin.setEndUserAuth(body({ appId, mode, setting }), call);
  },
};

interface PackName {
  readonly packId: string;
  readonly packName: string;
}

async function packNames({ admin, appId }: Target): Promise<PackName[]> {
  const { packs: rows } = await admin.listPacks({ appId });
  return rows.toSorted((a, b) => Number(a.archivedAt !== null) - Number(b.archivedAt !== null));
}

/** Returns the id of the pack that a name means: an active one before an archived one. */
const packNamed = (names: readonly PackName[], name: unknown): string | undefined =>
  names.find(({ packName }) => folded(packName) === folded(name))?.packId;

const stripe: ValueSection = {
  kind: "value",
  title: "Stripe's prices",
  defaults: { currency: "usd", prices: [] },
  unset: null,
  normalise: ({ prices: list = [], ...rest }) => ({
    ...rest,
    prices: (list as Item[]).map((price) => ({
      ...withoutDefaults(price, { expires: "pack", trial: false }),
      pack: folded(price.pack),
    })),
  }),
  audit: /^stripe\./,
  read: async (target) => {
    const { setting } = await target.admin.getStripe({ appId: target.appId, mode: target.mode });
    if (setting === null) return { value: null };
    const names = await packNames(target);
    const named = setting.prices.map(({ packId, ...rest }) => {
      const { packName } = names.find((one) => one.packId === packId) ?? {};
      // The name of an archived pack may be another pack's by now.
      return { ...rest, pack: packNamed(names, packName) === packId ? packName : packId };
    });
    return { value: { ...without(setting, ["signingSecrets"]), prices: named } };
  },
  set: async (target, value) => {
    const { admin, appId, mode, call } = target;
    if (value === null) return admin.setStripe({ appId, mode, setting: null }, call);
    const names = await packNames(target);
    const { prices: list = [], ...rest } = value as { prices?: Item[] };
    const known = list.map(({ pack, ...price }) => ({
      ...price,
      packId: packNamed(names, pack) ?? pack,
    }));
    const { setting } = await admin.getStripe({ appId, mode });
    const meaning = "the signing secret of your endpoint at Stripe, whsec_…";
    const secrets = setting === null ? { signingSecrets: [secretFor("PURSER_STRIPE_SIGNING_SECRET", meaning)] } : {};
    return admin.setStripe(body({ appId, mode, setting: { ...rest, ...secrets, prices: known } }), call);
  },
};

/** The sections in the order in which they are applied: what others refer to first. */
export const SECTIONS: Readonly<Record<string, Section>> = {
  packs,
  unitNames,
  usageLimits,
  alerts,
  expiryNotices,
  endUserAuth,
  prices,
  stripe,
  webhooks,
};

export type State = readonly Entry[] | { readonly value: unknown; readonly version?: number };

export const fingerprint = (state: State): string => canonical(state);
