import type { Child } from "hono/jsx";
import { type PageContext, useRequest } from "./form.ts";
import { queryString } from "./format.tsx";

/** Returns the path of a page of the current application and mode. A path from the root, or an address, stays as it is. */
export function pathIn(c: PageContext, rest: string): string {
  if (/^(\/|https:)/.test(rest)) return rest;
  const { appId, mode } = c.var.ctx.environment;
  return `/admin/apps/${encodeURIComponent(appId)}/${mode}/${rest}`;
}

interface AppLinkProps {
  /** The path of the page within the application, or from the root. */
  readonly to: string;
  /** The fields of its query. */
  readonly fields?: Readonly<Record<string, string | undefined>>;
  /** The id of the part of the page. */
  readonly hash?: string | undefined;
  readonly class?: string;
  readonly title?: string;
  readonly "aria-label"?: string | undefined;
  readonly "aria-current"?: "true" | "page" | undefined;
  readonly children?: Child;
}

/** Shows a link to a page of the application. */
export const AppLink = ({ to, fields = {}, hash, children, ...attributes }: AppLinkProps) => (
  <a {...attributes} href={`${pathIn(useRequest(), to)}${queryString(fields)}${hash === undefined ? "" : `#${hash}`}`}>
    {children}
  </a>
);

const BUTTON_CLASSES = {
  main: "button",
  quiet: "button quiet",
  danger: "button quiet danger",
  small: "button quiet small",
  "small danger": "button quiet danger small",
} as const;

interface LinkButtonProps extends Pick<AppLinkProps, "to" | "fields" | "hash"> {
  readonly text: string;
  readonly kind?: keyof typeof BUTTON_CLASSES;
  /** Read aloud in place of the text. */
  readonly label?: string;
}

/** Shows a link to a page of the application as a button. */
export const LinkButton = ({ text, kind = "quiet", label, ...link }: LinkButtonProps) => (
  <AppLink class={BUTTON_CLASSES[kind]} aria-label={label} {...link}>
    {text}
  </AppLink>
);
