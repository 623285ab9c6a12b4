import type { Context } from "hono";
import { archivePack, restorePack } from "../catalog/packs/change.ts";
import { presentPack, readPack } from "../catalog/packs/pack.ts";
import type { PurserError } from "../errors.ts";
import { Confirm } from "./confirm.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal } from "./form.ts";
import { page, pathIn } from "./layout.tsx";

async function archivePage(c: Context<DashboardEnv>, packId: string) {
  const { packName } = presentPack(await readPack(c.var.root, c.var.ctx.environment.appId, packId));
  return page(
    c,
    { title: "Archive pack", section: "packs" },
    <Confirm
      c={c}
      action={`packs/${packId}/archive`}
      fields={{}}
      button="Archive pack"
      cancel={`packs/${packId}`}
      isDangerous
    >
      <p>
        <b>{packName}</b> can no longer be granted, and its name can be used again. Existing balances are unchanged. It
        can be restored.
      </p>
    </Confirm>,
  );
}

const restoreRefused = (c: Context<DashboardEnv>, packId: string, refusal: PurserError) =>
  page(
    c,
    { title: "Restore pack", section: "packs", refusal },
    <p>
      <a href={pathIn(c, `packs/${packId}`)}>Back to the pack</a>: give it another name first.
    </p>,
  );

export const packArchiveRoutes = () =>
  createDashboardRoutes()
    .get("/packs/:packId/archive", (c) => archivePage(c, c.req.param("packId")))
    .post("/packs/:packId/archive", async (c) => {
      await archivePack(c.var.admin, c.var.ctx.environment.appId, c.req.param("packId"));
      return c.redirect(pathIn(c, "packs?notice=archived"), 303);
    })
    .post("/packs/:packId/restore", async (c) => {
      const packId = c.req.param("packId");
      const done = await catchRefusal(() => restorePack(c.var.admin, c.var.ctx.environment.appId, packId));
      return done.refusal === undefined
        ? c.redirect(pathIn(c, `packs/${packId}?notice=restored`), 303)
        : restoreRefused(c, packId, done.refusal);
    });
