import { expect, it } from "vitest";
import { urlAdvice } from "../../src/lib/public-url.ts";

/** An IPv4 address as two groups of an IPv6 address. Bits that are 1 in `mask` are inverted. */
function groupsOf(v4: string, mask = 0): string {
  const [a = 0, b = 0, c = 0, d = 0] = v4.split(".").map(Number);
  return [(a << 8) | b, (c << 8) | d].map((group) => (group ^ mask).toString(16)).join(":");
}

/** Every way to write an IPv4 address in a URL, also as part of an IPv6 address. */
const WAYS: Readonly<Record<string, (v4: string) => string>> = {
  "in dotted decimal": (v4) => v4,
  "with a trailing dot": (v4) => `${v4}.`,
  "as one number": (v4) => `${v4.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0)}`,
  "in octal": (v4) =>
    v4
      .split(".")
      .map((octet) => `0${Number(octet).toString(8)}`)
      .join("."),
  "as an IPv4-mapped IPv6 address": (v4) => `[::ffff:${v4}]`,
  "as an IPv4-compatible IPv6 address": (v4) => `[::${v4}]`,
  "as an IPv4-translated IPv6 address": (v4) => `[::ffff:0:${v4}]`,
  "for NAT64": (v4) => `[64:ff9b::${v4}]`,
  "for NAT64 with a local prefix": (v4) => `[64:ff9b:1::${v4}]`,
  "for 6to4": (v4) => `[2002:${groupsOf(v4)}::1]`,
  "as a Teredo server": (v4) => `[2001:0:${groupsOf(v4)}:0:0:f7f7:f7f7]`,
  "as a Teredo client": (v4) => `[2001:0:808:808:0:0:${groupsOf(v4, 0xffff)}]`,
  "for ISATAP": (v4) => `[2606:4700::5efe:${v4}]`,
  "for ISATAP with a globally unique identifier": (v4) => `[2606:4700::200:5efe:${v4}]`,
};
const NOT_PUBLIC = [
  ...["0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254"],
  ...["169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.0.1", "198.18.0.1", "198.19.255.255"],
  ...["224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"],
];
const PUBLIC = [
  "8.8.8.8",
  "100.63.255.255",
  "100.128.0.1",
  "172.32.0.1",
  "198.17.255.255",
  "198.20.0.1",
  "223.255.255.1",
];

it.each(Object.entries(WAYS))(
  "URLs to which this service sends requests (H1) are refused with an IPv4 address that is not public, written %s",
  (_, write) => {
    for (const v4 of NOT_PUBLIC) expect([v4, urlAdvice(`https://${write(v4)}/hook`)]).toEqual([v4, expect.any(String)]);
  },
);

it.each(Object.entries(WAYS).filter(([way]) => !way.includes("local prefix")))(
  "URLs to which this service sends requests (H1) are accepted with a public IPv4 address, written %s",
  (_, write) => {
    for (const v4 of PUBLIC) expect([v4, urlAdvice(`https://${write(v4)}/hook`)]).toEqual([v4, null]);
  },
);

it.each([
  ["unspecified", "[::]"],
  ["loopback", "[::1]"],
  ["unique local", "[fc00::1]"],
  ["unique local and assigned locally", "[fdff::1]"],
  ["link-local", "[fe80::1]"],
  ["site-local", "[fec0::1]"],
  ["multicast", "[ff02::1]"],
  ["reserved for benchmarks", "[2001:2::1]"],
  ["reserved for discarding", "[100::1]"],
  ["reserved", "[4000::1]"],
  ["reserved at the end of the address space", "[e000::1]"],
])("URLs to which this service sends requests (H1) are refused with an IPv6 address that is %s", (_, host) => {
  expect(urlAdvice(`https://${host}/`)).toContain("reached over the Internet");
});

it("URLs to which this service sends requests (H1) are accepted with a public IPv6 address", () => {
  for (const host of ["[2606:4700::1111]", "[2001:4860:4860::8888]", "[3fff::1]"]) {
    expect(urlAdvice(`https://${host}/`)).toBeNull();
  }
});
