import * as z from "zod";
import { listPacksOutput, pack } from "../../catalog/packs/responses.ts";
import { createPackInput, patchPackInput } from "../../catalog/packs/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, appId, createdAt, ofApp, path, tag } from "./administration.ts";

const newItem = { amount: 400, unit: "tokens", matches: [{ event: "chat.*" }], priority: 50 };
const item = { packItemId: "cpi_7hWk3yB5nC0eUi9fMvS4Lx", ...newItem };

const examplePack = {
  packId: "cpk_1mVt9sD4gE6uXa8oPzJ2Rq",
  packName: "Starter",
  defaultExpiryDays: 365,
  items: [item],
  unit: null,
  matches: null,
  priority: null,
  createdAt,
  archivedAt: null,
  version: 1,
};

const ofPack = z.object({ appId, packId: z.string().describe("The id of the pack, `cpk_…`.") });

export const packOperations: readonly Operation[] = [
  {
    id: "createPack",
    method: "post",
    path: path("/apps/{appId}/packs"),
    tag,
    access,
    summary: "Create a credit pack",
    description:
      "With items; or as a legacy pack without items (`items: []`), which has a `unit`. A grant of a legacy pack names the quantity.",
    params: ofApp,
    body: { schema: createPackInput, example: { packName: "Starter", defaultExpiryDays: 365, items: [newItem] } },
    success: { description: "The pack.", schema: pack, example: examplePack },
    errors: ["pack_name_taken"],
  },
  {
    id: "listPacks",
    method: "get",
    path: path("/apps/{appId}/packs"),
    tag,
    access,
    summary: "List an application's packs",
    description: "All packs, oldest first. Archived packs are included.",
    params: ofApp,
    success: { description: "The packs.", schema: listPacksOutput, example: { packs: [examplePack] } },
    errors: [],
  },
  {
    id: "updatePack",
    method: "patch",
    path: path("/apps/{appId}/packs/{packId}"),
    tag,
    access,
    summary: "Update a credit pack",
    description:
      "Send the fields to change. `items` is the whole new list; an item with its `packItemId` keeps its identity. Existing " +
      "balances do not change. With the `version` that you read, the update is refused if the pack was changed after that; " +
      "`details.version` is the current version.",
    params: ofPack,
    body: { schema: patchPackInput, example: { version: 1, packName: "Starter", items: [item] } },
    success: { description: "The updated pack.", schema: pack, example: { ...examplePack, version: 2 } },
    errors: ["pack_name_taken", "changed_meanwhile"],
  },
  {
    id: "archivePack",
    method: "post",
    path: path("/apps/{appId}/packs/{packId}/archive"),
    tag,
    access,
    summary: "Archive a credit pack",
    description: "It can no longer be granted, and its name can be used again. Existing balances do not change.",
    params: ofPack,
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
    path: path("/apps/{appId}/packs/{packId}/restore"),
    tag,
    access,
    summary: "Restore an archived credit pack",
    description: "It can be granted again, under its name. A pack that is not archived does not change.",
    params: ofPack,
    success: { description: "The pack.", schema: pack, example: { ...examplePack, version: 3 } },
    errors: ["pack_name_taken"],
  },
];
