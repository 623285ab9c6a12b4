export { purserMiddleware } from "./middleware.ts";
export type { CallParams, MiddlewareSettings, Reserving } from "./settings.ts";
