export { type Client, clientOf } from "./client.ts";
export { type DetailsOf, type ErrorCode, InsufficientCredits, PurserError } from "./errors.ts";
export type { Operations } from "./generated/operations.ts";
export type { Held, Hold, HoldInput } from "./hold.ts";
export type { Answer, CallOptions, Input, Output, Pages, Schemas } from "./operation.ts";
export { Purser } from "./purser.ts";
export type { PurserSettings } from "./send.ts";
export { verifyWebhook, type WebhookMessage, WebhookVerificationError } from "./webhook.ts";
