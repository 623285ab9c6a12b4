import { env } from "cloudflare:workers";
import { expectOk, type Operation, type Scene } from "./operation.ts";
import type { Answer } from "./world.ts";

/** Sends a request of the administrator. Created things are named after the scene's user, so that their rows can be found. */
const sendAsAdmin = (scene: Scene, method: string, path: string, body?: object): Promise<Answer> =>
  scene.send(method, `/api/v1/admin/apps${path}`, body, env.ADMIN_TOKEN);

const items = [{ amount: 2.5, unit: "tokens", matches: [{ event: "chat.*" }] }];

const makePack = async (scene: Scene): Promise<string> => {
  const answer = await expectOk(sendAsAdmin(scene, "POST", `/${scene.appId}/packs`, { packName: scene.userId, items }));
  return `/${scene.appId}/packs/${answer.body.packId}`;
};

const keyInput = (scene: Scene) => ({ kind: "secret", mode: "test", name: scene.userId });

export const adminOperations: readonly Operation[] = [
  {
    name: "creation of an application",
    isIdempotent: false,
    prepare: async (scene) => () => sendAsAdmin(scene, "POST", "", { name: scene.userId }),
  },
  {
    name: "creation of a key",
    isIdempotent: false,
    prepare: async (scene) => () => sendAsAdmin(scene, "POST", `/${scene.appId}/keys`, keyInput(scene)),
  },
  {
    name: "revocation of a key",
    isIdempotent: true,
    prepare: async (scene) => {
      const { keyId } = (await expectOk(sendAsAdmin(scene, "POST", `/${scene.appId}/keys`, keyInput(scene)))).body;
      return () => sendAsAdmin(scene, "DELETE", `/${scene.appId}/keys/${keyId}`);
    },
  },
  {
    name: "change of the end-user setting",
    isIdempotent: true,
    prepare: async (scene) => {
      const { appId } = (await expectOk(sendAsAdmin(scene, "POST", "", { name: scene.userId }))).body;
      const setting = { type: "hs256", secret: "a secret of more than thirty-two bytes" };
      return () => sendAsAdmin(scene, "PUT", `/${appId}/end-user-auth`, { mode: "test", setting });
    },
  },
  {
    name: "setting of a price list",
    isIdempotent: true,
    prepare: async (scene) => {
      const { appId } = (await expectOk(sendAsAdmin(scene, "POST", "", { name: scene.userId }))).body;
      const rules = [{ event: "chat.*", unit: "cents", per: { input: 0.001 } }];
      const body = { mode: "test", rules, note: "Next month", effectiveAt: "2026-02-01T00:00:00Z" };
      return () => sendAsAdmin(scene, "PUT", `/${appId}/prices`, body);
    },
  },
  {
    name: "deletion of a scheduled price list",
    isIdempotent: false,
    prepare: async (scene) => {
      const { appId } = (await expectOk(sendAsAdmin(scene, "POST", "", { name: scene.userId }))).body;
      const body = { mode: "test", rules: [{ unit: "cents", perEvent: 1 }], effectiveAt: "2026-02-01T00:00:00Z" };
      await expectOk(sendAsAdmin(scene, "PUT", `/${appId}/prices`, body));
      return () => sendAsAdmin(scene, "DELETE", `/${appId}/prices/1?mode=test`);
    },
  },
  {
    name: "creation of a pack",
    isIdempotent: false,
    prepare: async (scene) => () =>
      sendAsAdmin(scene, "POST", `/${scene.appId}/packs`, { packName: scene.userId, items }),
  },
  {
    name: "change of a pack",
    isIdempotent: false,
    prepare: async (scene) => {
      const path = await makePack(scene);
      return () => sendAsAdmin(scene, "PATCH", path, { defaultExpiryDays: 30, items: [...items, ...items] });
    },
  },
  {
    name: "archival of a pack",
    isIdempotent: true,
    prepare: async (scene) => {
      const path = await makePack(scene);
      return () => sendAsAdmin(scene, "POST", `${path}/archive`);
    },
  },
  {
    name: "restoration of a pack",
    isIdempotent: true,
    prepare: async (scene) => {
      const path = await makePack(scene);
      await expectOk(sendAsAdmin(scene, "POST", `${path}/archive`));
      return () => sendAsAdmin(scene, "POST", `${path}/restore`);
    },
  },
];
