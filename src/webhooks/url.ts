const LABEL = "[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?";
const HOST = new RegExp(`^(?:${LABEL}\\.)*${LABEL}\\.?$`);

const octetsOf = (host: string): number[] | null => (/^\d+(\.\d+){3}$/.test(host) ? host.split(".").map(Number) : null);

/** Loopback, private, shared, link-local or unspecified. */
function isInner([a = 0, b = 0]: readonly number[]): boolean {
  return (
    [0, 10, 127].includes(a) ||
    (a === 100 && b >= 64 && b < 128) ||
    (a === 169 && b === 254) ||
    (a === 172 && b >= 16 && b < 32) ||
    (a === 192 && b === 168)
  );
}

/** The eight groups of an IPv6 address as `URL` writes it, without its brackets. */
function groupsOf(address: string): number[] {
  const [head = "", tail] = address.split("::").map((half) => half.split(":").filter(Boolean));
  const after = tail ?? [];
  const zeros = Array<string>(8 - head.length - after.length).fill("0");
  return [...head, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
}

function isInnerV6(address: string): boolean {
  const groups = groupsOf(address);
  const [a = 0] = groups;
  const v4At = (index: number) => [groups[index] ?? 0, groups[index + 1] ?? 0].flatMap((n) => [n >> 8, n & 255]);
  const begins = (...start: number[]) => start.every((group, index) => groups[index] === group);
  // Unique local, link-local and site-local; then what carries an IPv4 address: mapped and compatible, translated, 6to4.
  if ((a & 0xfe00) === 0xfc00 || (a & 0xff80) === 0xfe80) return true;
  if (begins(0, 0, 0, 0) || begins(0x64, 0xff9b)) return isInner(v4At(6));
  return a === 0x2002 && isInner(v4At(1));
}

const isLocalName = (host: string) => /(^|\.)localhost\.?$/.test(host);

/** What to change about the URL of an endpoint (H1). Null when it is one. */
export function urlAdvice(text: string): string | null {
  if (!/^https?:\/\/[^/\\]/i.test(text) || /[\s\p{Cc}]/u.test(text) || !URL.canParse(text)) {
    return "must be a URL such as `https://example.com/webhooks`";
  }
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== "" || password !== "" || /^[^/?#]*@/.test(text.slice(text.indexOf("//") + 2))) {
    return "must not have a user or a password. Messages are signed";
  }
  const v4 = octetsOf(hostname);
  const v6 = hostname.startsWith("[") ? hostname.slice(1, -1) : null;
  if (protocol === "http:") {
    const isLoopback = isLocalName(hostname) || v4?.[0] === 127 || v6 === "::1";
    return isLoopback ? null : "must be https. Only a loopback host may be http";
  }
  if (v6 === null && (hostname.length > 253 || !HOST.test(hostname))) return "must name a host, such as `example.com`";
  const isInside = isLocalName(hostname) || (v6 === null ? v4 !== null && isInner(v4) : isInnerV6(v6));
  return isInside ? "must be a host that is reached over the Internet, not a loopback or private one" : null;
}
