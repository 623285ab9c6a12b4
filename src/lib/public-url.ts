const LABEL = "[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?";
const HOST = new RegExp(`^(?:${LABEL}\\.)*${LABEL}\\.?$`);

const parseOctets = (host: string): number[] | null =>
  /^\d+(\.\d+){3}$/.test(host) ? host.split(".").map(Number) : null;

/**
 * Returns whether an IPv4 address is outside the public Internet: loopback, private, shared, link-local, unspecified, benchmarks
 * (198.18/15), multicast or reserved.
 */
function isNonPublicV4([a = 0, b = 0]: readonly number[]): boolean {
  return (
    [0, 10, 127].includes(a) ||
    (a === 100 && b >= 64 && b < 128) ||
    (a === 169 && b === 254) ||
    (a === 172 && b >= 16 && b < 32) ||
    (a === 192 && b === 168) ||
    (a === 198 && (b === 18 || b === 19)) ||
    a >= 224
  );
}

/** Returns the eight groups of an IPv6 address in the form that `URL` writes, without brackets. */
function parseGroups(address: string): number[] {
  const [head = "", tail] = address.split("::").map((half) => half.split(":").filter(Boolean));
  const afterZeros = tail ?? [];
  const zeros = Array<string>(8 - head.length - afterZeros.length).fill("0");
  return [...head, ...zeros, ...afterZeros].map((group) => Number.parseInt(group, 16));
}

/** Returns every IPv4 address embedded in an IPv6 address, by each standard way of embedding. */
function embeddedV4(groups: readonly number[]): number[][] {
  const v4At = (index: number, mask = 0) =>
    [groups[index] ?? 0, groups[index + 1] ?? 0].flatMap((group) => [(group ^ mask) >> 8, (group ^ mask) & 255]);
  const startsWith = (...start: number[]) => start.every((group, index) => groups[index] === group);
  const isIsatap = ((groups[4] ?? 0) & 0xfdff) === 0 && groups[5] === 0x5efe;
  return [
    // Mapped, compatible and translated; NAT64; ISATAP.
    ...(startsWith(0, 0, 0, 0) || startsWith(0x64, 0xff9b) || isIsatap ? [v4At(6)] : []),
    // 6to4.
    ...(startsWith(0x2002) ? [v4At(1)] : []),
    // Teredo: the server's address, and the client's with every bit inverted.
    ...(startsWith(0x2001, 0) ? [v4At(2), v4At(6, 0xffff)] : []),
  ];
}

function isNonPublicV6(address: string): boolean {
  const groups = parseGroups(address);
  const [a = 0, b = 0, c = 0] = groups;
  if (embeddedV4(groups).some(isNonPublicV4)) return true;
  // These ranges only embed an IPv4 address, which is checked separately. NAT64 also has a prefix for local use, 64:ff9b:1::/48.
  if (groups.slice(0, 4).every((group) => group === 0) || (a === 0x64 && b === 0xff9b && c === 0)) return false;
  // Only 2000::/3 is public, except 2001:2::/48, which is for benchmarks.
  return (a & 0xe000) !== 0x2000 || (a === 0x2001 && b === 2 && c === 0);
}

const isLocalName = (host: string) => /(^|\.)localhost\.?$/.test(host);

/** Returns null when Purser may send requests to a URL. Otherwise returns what the caller must change about the URL. */
export function urlAdvice(text: string): string | null {
  if (!/^https?:\/\/[^/\\]/i.test(text) || /[\s\p{Cc}]/u.test(text) || !URL.canParse(text)) {
    return "must be a URL such as `https://example.com/path`";
  }
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== "" || password !== "" || /^[^/?#]*@/.test(text.slice(text.indexOf("//") + 2))) {
    return "must not have a user or a password";
  }
  const v4 = parseOctets(hostname);
  const v6 = hostname.startsWith("[") ? hostname.slice(1, -1) : null;
  if (protocol === "http:") {
    const isLoopback = isLocalName(hostname) || v4?.[0] === 127 || v6 === "::1";
    return isLoopback ? null : "must be https. Only a loopback host may be http";
  }
  if (v6 === null && (hostname.length > 253 || !HOST.test(hostname))) return "must name a host, such as `example.com`";
  const isNonPublic = isLocalName(hostname) || (v6 === null ? v4 !== null && isNonPublicV4(v4) : isNonPublicV6(v6));
  return isNonPublic ? "must be a host that is reached over the Internet, not a loopback or private one" : null;
}
