import { expect, it } from "vitest";
import { maskAddress } from "../../src/auth/arrivals.ts";
import { MinuteCounts } from "../../src/auth/minute-counts.ts";

it.each([
  ["192.0.2.1", "192.0.2.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0DB8:0001:0002::6", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["2001:db8:1:2::", "2001:db8:1:2::/64"],
  ["1:2:3:4:5:6:7::", "1:2:3:4::/64"],
])("the network of an address of %s is %s", (address, network) => expect(maskAddress(address)).toBe(network));

it("the counts of a minute forget the oldest address when there are more than 10,000", () => {
  const counts = new MinuteCounts();
  counts.add("first", 0);
  for (let n = 0; n < 9_999; n++) counts.add(`other ${n}`, 1);
  expect(counts.count("first", 1)).toBe(1);
  counts.add("one more", 1);
  expect(counts.count("first", 1)).toBe(0);
  expect(counts.count("other 0", 1)).toBe(1);
});

it("the counts of a minute begin again at 1 after a minute, and tell the seconds left until then", () => {
  const counts = new MinuteCounts();
  expect(counts.add("a", 1_000)).toBe(1);
  expect(counts.add("a", 2_000)).toBe(2);
  expect(counts.secondsLeft("a", 2_000)).toBe(59);
  expect(counts.add("a", 61_000)).toBe(1);
});
