import { raw } from "hono/html";
import down from "lucide-static/dist/esm/icons/arrow-down-right.mjs";
import up from "lucide-static/dist/esm/icons/arrow-up-right.mjs";
import bell from "lucide-static/dist/esm/icons/bell.mjs";
import book from "lucide-static/dist/esm/icons/book-open.mjs";
import chart from "lucide-static/dist/esm/icons/chart-column.mjs";
import switchIcon from "lucide-static/dist/esm/icons/chevrons-up-down.mjs";
import check from "lucide-static/dist/esm/icons/circle-check.mjs";
import cross from "lucide-static/dist/esm/icons/circle-x.mjs";
import copy from "lucide-static/dist/esm/icons/copy.mjs";
import payments from "lucide-static/dist/esm/icons/credit-card.mjs";
import download from "lucide-static/dist/esm/icons/download.mjs";
import more from "lucide-static/dist/esm/icons/ellipsis.mjs";
import limits from "lucide-static/dist/esm/icons/gauge.mjs";
import key from "lucide-static/dist/esm/icons/key-round.mjs";
import layers from "lucide-static/dist/esm/icons/layers.mjs";
import overview from "lucide-static/dist/esm/icons/layout-dashboard.mjs";
import signOut from "lucide-static/dist/esm/icons/log-out.mjs";
import menu from "lucide-static/dist/esm/icons/menu.mjs";
import sessions from "lucide-static/dist/esm/icons/monitor-smartphone.mjs";
import packs from "lucide-static/dist/esm/icons/package.mjs";
import audit from "lucide-static/dist/esm/icons/scroll-text.mjs";
import search from "lucide-static/dist/esm/icons/search.mjs";
import clock from "lucide-static/dist/esm/icons/timer.mjs";
import alert from "lucide-static/dist/esm/icons/triangle-alert.mjs";
import people from "lucide-static/dist/esm/icons/user-round-search.mjs";
import users from "lucide-static/dist/esm/icons/users.mjs";
import webhooks from "lucide-static/dist/esm/icons/webhook.mjs";

/** The Lucide icons in use. The bundle contains no others. */
const ICONS = {
  alert,
  audit,
  book,
  chart,
  check,
  clock,
  copy,
  cross,
  down,
  download,
  key,
  limits,
  menu,
  more,
  overview,
  packs,
  payments,
  people,
  bell,
  search,
  sessions,
  signOut,
  switch: switchIcon,
  up,
  users,
  webhooks,
  layers,
} as const;
export type IconName = keyof typeof ICONS;

/** Shows an icon beside its words. Screen readers skip it. */
export const Icon = ({ name, kind }: { name: IconName; kind?: string }) => (
  <span class={kind === undefined ? "icon" : `icon ${kind}`} aria-hidden="true">
    {raw(ICONS[name].replaceAll(/\s+/g, " ").trim())}
  </span>
);
