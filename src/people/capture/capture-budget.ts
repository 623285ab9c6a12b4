import { PurserError } from "../../errors.ts";

/** The most bytes of stored properties that one request may need. A client that sends half as many events needs less. */
const PROPERTIES_BYTES_MAX = 16 * 1024 * 1024;

/** The memory budget that the parts of one request share. */
export class CaptureBudget {
  #bytes = PROPERTIES_BYTES_MAX;

  spend(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes >= 0) return;
    throw new PurserError(
      "payload_too_large",
      `The ids of these events have more than ${PROPERTIES_BYTES_MAX} bytes of properties. Send fewer events at a time.`,
    );
  }
}
