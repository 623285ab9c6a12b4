/** Five groups of hex digits: a UUID, or an id from an older version of posthog-js. */
const FIVE_GROUPS = /^[0-9a-f]+(-[0-9a-f]+){4}$/i;
const DIGITS_MIN = 32;

/** Whether an id has the form of the device ids of SDKs (P2). A publishable key can claim only such an id. */
export function isDeviceForm(distinctId: string): boolean {
  return FIVE_GROUPS.test(distinctId) && distinctId.length - 4 >= DIGITS_MIN;
}
