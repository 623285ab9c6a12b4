import { expect, it } from "vitest";
import { alias, identify, makeClaimsWorld, newDevice, seen, WITH_SECRET_KEY } from "../support/claims-world.ts";

it.each([
  ["a UUID of version 4", "f47ac10b-58cc-4372-a567-0e02b2c3d479", true],
  ["a UUID of version 7", "0190d6a1-7c3e-7abc-8def-0123456789ab", true],
  ["a UUID in upper case", "F47AC10B-58CC-4372-A567-0E02B2C3D479", true],
  ["five groups with 52 hex digits", "17f3e1b2c3d4e5-0a1b2c3d4e5f6-34567890-1fa400-17f3e1b2c3d4e6", true],
  ["five groups with 31 hex digits", "f47ac10b-58cc-4372-a567-0e02b2c3d47", false],
  ["four groups of hex digits", "f47ac10b58cc-4372-a567-0e02b2c3d479", false],
  ["six groups of hex digits", "f47ac10b-58cc-4372-a567-0e02b2c3d479-00", false],
  ["a UUID with a letter that is not a hex digit", "f47ac10b-58cc-4372-a567-0e02b2c3d47g", false],
  ["a UUID with a prefix", "user_f47ac10b-58cc-4372-a567-0e02b2c3d479", false],
  ["an e-mail address", "ana@example.com", false],
  ["a number", "42", false],
  ["a shared id that is a UUID", "00000000-0000-0000-0000-000000000000", false],
])("a claim by a publishable key on %s (%s) counts: %s", async (_, other, isDevice) => {
  for (const link of [identify, alias]) {
    const world = await makeClaimsWorld();
    await world.send([seen(other), link("ana", other)]);
    expect(await world.idsOf("ana")).toEqual(isDevice ? [other, "ana"].sort() : ["ana"]);
  }
});

it.each(["anonymous", "null", "UNDEFINED", " guest ", "0", "[object Object]", '"none"'])(
  "a claim on or by the shared id %j links nothing, not even with a secret key",
  async (shared) => {
    for (const rest of [{}, WITH_SECRET_KEY]) {
      const world = await makeClaimsWorld();
      const device = newDevice();
      await world.send([identify("ana", shared, rest), alias("ana", shared, rest), alias(shared, device, rest)]);
      expect(await world.idsOf("ana")).toEqual(["ana"]);
      expect(await world.idsOf(device)).toEqual([]);
    }
  },
);
