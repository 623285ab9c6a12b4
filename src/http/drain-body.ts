import { factory } from "./factory.ts";

/** So much of a refused body is read off at the most; who sends more may lose the connection with its answer. */
const DRAINED_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Reads off the body that a refusal left unread: a client still sending would otherwise find its connection reset, and
 * never see why it was refused.
 */
export const drainBody = factory.createMiddleware(async (c, next) => {
  const { body } = c.req.raw;
  await next();
  if (body === null || body.locked || c.res.status < 400) return;
  const reader = body.getReader();
  try {
    for (let drained = 0; drained <= DRAINED_BYTES_MAX; ) {
      const { done, value } = await reader.read();
      if (done) return;
      drained += value.byteLength;
    }
    await reader.cancel();
  } catch {
    // The client went away: there is nobody left to answer.
  }
});
