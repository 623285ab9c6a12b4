import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTHeaderParameters, SignJWT } from "jose";

/** A key pair of an identity provider. */
export interface SigningKey {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

export async function makeSigningKey(kid: string, alg = "ES256"): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" } };
}

/** Signs a token as an identity provider does. By default it is for `sub` and valid for an hour. */
export function signToken(
  key: Pick<SigningKey, "alg" | "kid"> & { privateKey: CryptoKey | Uint8Array },
  claims: Record<string, unknown> = {},
  header: Partial<JWTHeaderParameters> = {},
): Promise<string> {
  const now = Math.floor(Date.now() / 1_000);
  const payload = { sub: "u1", iat: now, exp: now + 3_600, ...claims };
  return new SignJWT(payload).setProtectedHeader({ alg: key.alg, kid: key.kid, ...header }).sign(key.privateKey);
}

export interface KeyServer {
  readonly url: string;
  /** The published keys, and the response's form. */
  keys: JWK[];
  status: number;
  /** Raw text instead of the keys, when it is not null. */
  text: string | null;
  requests: number;
  readonly close: () => Promise<void>;
}

/** A JWKS server on a free port of the loopback interface. */
export async function startKeyServer(keys: JWK[]): Promise<KeyServer> {
  const state = { keys, status: 200, text: null as string | null, requests: 0 };
  const server = createServer((_request, response) => {
    state.requests++;
    response.writeHead(state.status, { "content-type": "application/json" });
    response.end(state.text ?? JSON.stringify({ keys: state.keys }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(state, {
    url: `http://127.0.0.1:${port}/jwks.json`,
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  });
}
