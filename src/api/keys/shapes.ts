import { EXAMPLE } from "../common.ts";

const { createdAt } = EXAMPLE;

export const exampleKey = {
  keyId: "key_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "sk_live_…AbCd",
  kind: "secret",
  mode: "live",
  createdAt,
};

export const newAdminKey = { name: "Support desk", scopes: ["read", "people"], modes: ["live"] } as const;

export const exampleAdminKey = {
  ...newAdminKey,
  adminKeyId: "adk_8tLf2mY4cJ7hWs1xNvQ9Ba",
  hint: "ak_…XwBc",
  apps: null,
  createdAt,
};
