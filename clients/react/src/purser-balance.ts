import type { PurserBalance as PurserBalanceElement } from "purser-balance";
import type { Schemas } from "purser-client";
import { createElement, type HTMLAttributes, type ReactElement, type ReactNode, useEffect, useRef } from "react";
import type { GetToken } from "./use-purser-balance.ts";

/** The attributes of the element, by their names in HTML. */
interface ElementAttributes extends HTMLAttributes<PurserBalanceElement> {
  readonly url?: string;
  readonly "publishable-key"?: string;
  readonly "user-id"?: string;
  readonly getToken?: GetToken;
  readonly event?: string;
  readonly currency?: string;
  readonly low?: number | string;
  readonly limits?: boolean;
  readonly recurring?: boolean;
  readonly [text: `text-${string}` | `low-${string}`]: number | string | undefined;
  readonly ref?: React.Ref<PurserBalanceElement>;
}

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "purser-balance": ElementAttributes;
    }
  }
}

export interface PurserBalanceProps
  extends Omit<ElementAttributes, "url" | "publishable-key" | "user-id" | "getToken" | "ref"> {
  /** The address of Purser, such as `https://purser.example.com`. */
  readonly url: string;
  /** A publishable key, `pk_…`. */
  readonly publishableKey: string;
  /** Your own id of the user for whom `getToken` returns a token. */
  readonly userId: string;
  readonly getToken: GetToken;
  /** Called after each reading with the shown credits. */
  readonly onBalance?: (detail: {
    readonly state: string;
    readonly remaining: Readonly<Record<string, number>>;
    /** Empty without the property `limits`. */
    readonly limits: readonly Schemas["UserUsageLimit"][];
  }) => void;
  /** Called with the reason when the credits cannot be shown. */
  readonly onError?: (error: unknown) => void;
  /** The content below the credits, such as a link to buy more. */
  readonly children?: ReactNode;
}

/** Shows a user's remaining credits with the element `<purser-balance>`, which is loaded only in the browser. */
export function PurserBalance(props: PurserBalanceProps): ReactElement {
  const { publishableKey, userId, getToken, onBalance, onError, children, ...attributes } = props;
  const element = useRef<PurserBalanceElement>(null);
  const last = useRef(props);
  useEffect(() => {
    last.current = props;
  });
  useEffect(() => {
    const { current } = element;
    if (current === null) return;
    // This runs before the element's script, so the element has `getToken` when it first needs a token.
    current.getToken ??= () => last.current.getToken();
    const balance = (event: Event) => last.current.onBalance?.((event as CustomEvent).detail);
    const error = (event: Event) => last.current.onError?.((event as CustomEvent).detail);
    current.addEventListener("purser-balance", balance);
    current.addEventListener("purser-error", error);
    void import("purser-balance");
    return () => {
      current.removeEventListener("purser-balance", balance);
      current.removeEventListener("purser-error", error);
    };
  }, []);
  return createElement(
    "purser-balance",
    { ...attributes, "publishable-key": publishableKey, "user-id": userId, getToken, ref: element },
    children,
  );
}
