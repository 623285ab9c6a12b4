/** Five groups of hex digits: a UUID, or what older versions of posthog-js make. */
const FIVE_GROUPS = /^[0-9a-f]+(-[0-9a-f]+){4}$/i;
const DIGITS_MIN = 32;

/** Whether an id has the form that SDKs give a device (P2). Only such an id can be claimed by a publishable key. */
export function isDeviceForm(distinctId: string): boolean {
  return FIVE_GROUPS.test(distinctId) && distinctId.length - 4 >= DIGITS_MIN;
}
