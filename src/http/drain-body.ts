import { factory } from "./factory.ts";

/** The most bytes of a refused body that are read. A client that sends more may lose the connection and the response. */
const DRAINED_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Reads the rest of the body after a refusal. Otherwise the connection of a client that is still sending would be reset, and
 * it would not see the refusal.
 */
export const drainBody = factory.createMiddleware(async (c, next) => {
  await next();
  if (c.res.status < 400) return;
  const { body } = c.req.raw;
  if (body === null || body.locked) return;
  const reader = body.getReader();
  try {
    for (let drained = 0; drained <= DRAINED_BYTES_MAX; ) {
      const { done, value } = await reader.read();
      if (done) return;
      drained += value.byteLength;
    }
    await reader.cancel();
  } catch {
    // The client closed the connection, so there is nobody to respond to.
  }
});
