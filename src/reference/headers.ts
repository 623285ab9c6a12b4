const textHeader = (description: string, example: string) => ({
  description,
  schema: { type: "string" as const },
  example,
});

/** The headers of responses. */
export const headers = {
  "x-request-id": textHeader("The request's id. Also in `error.requestId`.", "req_4ZkX0uTn2mWq8hYc1LfRsa"),
  "x-d1-bookmark": textHeader(
    "The database state of this response. Send it with a later read to see at least this state.",
    "00000085-00000002-00004f5c-4c2bb2e0d0a7f5f2d9f3b0e6b1a2c3d4",
  ),
  "idempotent-replayed": textHeader(
    "`true` when the request was a repeat: nothing was done, and the first result is returned.",
    "true",
  ),
  "purser-warning": textHeader(
    "Warnings about an accepted request that looks like a mistake: at most three sentences, for people. Their wording may change.",
    "The quantity is disregarded: the pack has items, and each is granted as it is.",
  ),
  "retry-after": textHeader("Seconds to wait before the next attempt.", "1"),
  "www-authenticate": textHeader("How to send a key.", "Bearer"),
  link: textHeader("The way to this reference, of a path at which there is nothing.", '</docs>; rel="help"'),
};

export type HeaderName = keyof typeof headers;

export const headerRefs = (names: readonly HeaderName[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` as const }]));
