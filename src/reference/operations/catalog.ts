import * as z from "zod";
import { appOutputSchema, endUserAuthOutput, listAppsOutput, listPacksOutput, pack } from "../../catalog/responses.ts";
import { createAppInput, createPackInput, patchPackInput, setEndUserAuthInput } from "../../catalog/schemas.ts";
import { setClockInput } from "../../clocks/clock.ts";
import { clockOutput } from "../../clocks/responses.ts";
import { analyticsDefaults } from "../../people/limits/count.ts";
import { limitsOutput } from "../../people/responses.ts";
import { readLimitsInput, setLimitsInput } from "../../people/schemas.ts";
import type { Operation } from "../operation.ts";
import { appId, appParams, EXAMPLE, ofAdministration } from "./common.ts";

const exampleApp = { appId: EXAMPLE.appId, name: "Writing desk", database: "DB", createdAt: EXAMPLE.createdAt };

const setting = {
  type: "jwks",
  url: "https://auth.example.com/.well-known/jwks.json",
  issuer: "https://auth.example.com",
  audience: "writing-desk",
};

const limits = {
  appId: EXAMPLE.appId,
  mode: "live",
  analytics: { ...analyticsDefaults, eventsADay: 5_000_000 },
  today: { day: "2026-01-15", events: 61_204, bytes: 31_990_112, eventsOfOneId: 412, bytesOfOneId: 260_118 },
  reached: [{ limit: "eventsADay", at: "2026-01-12T21:14:09.120Z" }],
};

const now = "2026-02-15T12:00:00.000Z";
const ready = { now, status: "ready" };

const newPackItem = { amount: 400, unit: "tokens", matches: [{ event: "chat.*" }], priority: 50 };
const packItem = { packItemId: EXAMPLE.packItemId, ...newPackItem };
const examplePack = {
  packId: EXAMPLE.packId,
  packName: "Starter",
  defaultExpiryDays: 365,
  items: [packItem],
  unit: null,
  matches: null,
  priority: null,
  createdAt: EXAMPLE.createdAt,
  archivedAt: null,
  version: 1,
};
const packParams = z.object({ appId, packId: z.string().describe("The id of the pack, `cpk_…`.") });

/** Applications and their packs, and what an operator sets for an environment. */
export const catalogOperations: readonly Operation[] = ofAdministration([
  {
    id: "createApp",
    method: "post",
    path: "/apps",
    summary: "Create an application",
    description: "Creates an application with a live and a test environment. It has no keys yet.",
    body: { schema: createAppInput, example: { name: "Writing desk" } },
    success: { description: "The application.", schema: appOutputSchema, example: exampleApp },
    errors: [],
  },
  {
    id: "listApps",
    method: "get",
    path: "/apps",
    summary: "List applications",
    description:
      "Returns all applications, oldest first. An administration key gets only the applications that it is for.",
    success: { description: "The applications.", schema: listAppsOutput, example: { apps: [exampleApp] } },
    errors: [],
  },
  {
    id: "setEndUserAuth",
    method: "put",
    path: "/apps/{appId}/end-user-auth",
    summary: "Set how user tokens are verified",
    description:
      "Sets, for one mode, how Purser verifies the tokens of your users. The setting takes effect at once, for " +
      "reads at a replica within seconds. A secret is not returned again. A claim that ends in `email`, `phone` or " +
      "`phone_number` names the user only in a token where the same name with `_verified` is true.",
    params: appParams,
    body: { schema: setEndUserAuthInput, example: { mode: "live", setting } },
    success: {
      description: "The setting, without its secret.",
      schema: endUserAuthOutput,
      example: { appId: EXAMPLE.appId, mode: "live", setting },
      warns: true,
    },
    errors: ["secrets_unavailable"],
  },
  {
    id: "setLimits",
    method: "put",
    path: "/apps/{appId}/limits",
    summary: "Set the limits of analytics",
    description:
      "Sets the limits of one mode. They take effect at once. Only events that were sent with publishable and relay " +
      "keys count, and only such events are dropped above a limit.",
    params: appParams,
    body: { schema: setLimitsInput, example: { mode: "live", analytics: { eventsADay: 5_000_000 } } },
    success: { description: "The current limits, and today's usage.", schema: limitsOutput, example: limits },
    errors: [],
  },
  {
    id: "getLimits",
    method: "get",
    path: "/apps/{appId}/limits",
    summary: "Get the limits of analytics, and what was used today",
    description: "Returns the limits of one mode, what was used today, and the limits that were reached.",
    params: appParams,
    query: readLimitsInput,
    success: { description: "The current limits, and today's usage.", schema: limitsOutput, example: limits },
    errors: [],
  },
  {
    id: "setTestClock",
    method: "put",
    path: "/apps/{appId}/clock",
    summary: "Set the time of the test environment",
    description:
      "Sets the time of test mode. The clock moves only forward, to at most ten years ahead of real time, and then " +
      "runs at the speed of real time. Everything that becomes due in between happens in order, at its own time: " +
      "holds return or are charged, notices and messages are sent, balances expire. With the status `advancing`, " +
      "the cron does the rest, and until then the environment has the time that was reached. The same `now` again " +
      "returns the first response and continues. Links, sessions, signatures, delivery attempts, erasures and " +
      "retention use real time.",
    params: appParams,
    body: { schema: setClockInput, example: { now } },
    success: {
      description: "The time that was set.",
      schema: clockOutput,
      example: ready,
      replayable: true,
    },
    errors: [],
  },
  {
    id: "getTestClock",
    method: "get",
    path: "/apps/{appId}/clock",
    summary: "Get the time of the test environment",
    description:
      "Returns the environment's time. `now` is null if there is no clock; then the environment uses real time.",
    params: appParams,
    success: { description: "The environment's time.", schema: clockOutput, example: ready },
    errors: [],
  },
  {
    id: "removeTestClock",
    method: "delete",
    path: "/apps/{appId}/clock",
    summary: "Take the test environment back to real time",
    description:
      "Removes the clock. This is possible only while the environment has no credits, usage, payments or people, " +
      "because their times would be in the future; otherwise the response is `invalid_request`.",
    params: appParams,
    success: { description: "Real time.", schema: clockOutput, example: { now: null, status: "ready" } },
    errors: ["invalid_request"],
  },
  {
    id: "createPack",
    method: "post",
    path: "/apps/{appId}/packs",
    summary: "Create a credit pack",
    description:
      "Creates a pack with items, or a legacy pack without items (`items: []`), which has a `unit`. A grant of a " +
      "legacy pack names the quantity.",
    params: appParams,
    body: { schema: createPackInput, example: { packName: "Starter", defaultExpiryDays: 365, items: [newPackItem] } },
    success: { description: "The pack.", schema: pack, example: examplePack },
    errors: ["pack_name_taken"],
  },
  {
    id: "listPacks",
    method: "get",
    path: "/apps/{appId}/packs",
    summary: "List an application's packs",
    description: "Returns all packs, oldest first, including archived ones.",
    params: appParams,
    success: { description: "The packs.", schema: listPacksOutput, example: { packs: [examplePack] } },
    errors: [],
  },
  {
    id: "updatePack",
    method: "patch",
    path: "/apps/{appId}/packs/{packId}",
    summary: "Update a credit pack",
    description:
      "Changes the fields that you send. `items` is the whole new list; an item with its `packItemId` keeps its " +
      "identity. Existing balances do not change. With the `version` that you read, the update is refused if the " +
      "pack was changed after that; `details.version` is the current version.",
    params: packParams,
    body: { schema: patchPackInput, example: { version: 1, packName: "Starter", items: [packItem] } },
    success: { description: "The updated pack.", schema: pack, example: { ...examplePack, version: 2 } },
    errors: ["pack_name_taken", "changed_meanwhile"],
  },
  {
    id: "archivePack",
    method: "post",
    path: "/apps/{appId}/packs/{packId}/archive",
    summary: "Archive a credit pack",
    description:
      "Archives a pack. It can no longer be granted, and its name can be used again. Existing balances do not change.",
    params: packParams,
    success: {
      description: "The archived pack.",
      schema: pack,
      example: { ...examplePack, archivedAt: "2026-02-01T09:00:00.000Z", version: 2 },
    },
    errors: [],
  },
  {
    id: "restorePack",
    method: "post",
    path: "/apps/{appId}/packs/{packId}/restore",
    summary: "Restore an archived credit pack",
    description:
      "Restores a pack, so that it can be granted again under its name. Restoring a pack that is not archived " +
      "changes nothing.",
    params: packParams,
    success: { description: "The pack.", schema: pack, example: { ...examplePack, version: 3 } },
    errors: ["pack_name_taken"],
  },
]);
