import purser from "../../src/index.ts";
import { d1Of } from "../../test/support/wrapped-d1.ts";

/** Where the bench asks for `parse`. worst.ts sends it the body of each shape. */
const FLOOR_PATH = "/bench/floor";

type Answer = { readonly results?: D1Result[]; readonly bookmark?: string; readonly error?: string };

/** Purser over a D1 in another process, which is asked by JSON over HTTP, as D1 is on the platform. */
function farD1(url: string): D1Database {
  return d1Of((start) => {
    let bookmark: string | null = null;
    return {
      send: async (statements) => {
        const body = JSON.stringify({ start, statements });
        const answer = await (await fetch(url, { method: "POST", body })).json<Answer>();
        if (answer.results === undefined) throw new Error(answer.error);
        bookmark = answer.bookmark ?? bookmark;
        return answer.results;
      },
      getBookmark: () => bookmark,
    };
  });
}

/** The pages ask for the version of their files. */
const REFERENCE = { fetch: async () => new Response("bench") } as unknown as Fetcher;

/** Does what nobody who takes JSON is spared: unpacks a body, reads it as text and parses it. */
async function parse(request: Request): Promise<Response> {
  const bytes = new Uint8Array(await request.arrayBuffer());
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const unpacked = isPacked ? new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")) : bytes;
  const text = await new Response(unpacked).text();
  try {
    JSON.parse(text);
  } catch {
    // Some of the bodies are malformed, which takes as long to find.
  }
  return new Response();
}

export default {
  // `D1_URL` is a binding of the bench alone.
  fetch: (request, env, context) =>
    new URL(request.url).pathname === FLOOR_PATH
      ? parse(request)
      : purser.fetch(request, { ...env, REFERENCE, DB: farD1((env as Env & { D1_URL: string }).D1_URL) }, context),
} satisfies ExportedHandler<Env>;
