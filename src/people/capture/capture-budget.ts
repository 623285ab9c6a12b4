import { PurserError } from "../../errors.ts";
import { utf8Length } from "../../lib/encoding.ts";
import type { TenantCtx } from "../../runtime.ts";
import { isCounted } from "../limits/daily-limits.ts";
import type { PeopleChange, StoredPeople } from "../plan-people.ts";

/** The most bytes of stored properties that the plan of one request may read. */
const READ_BYTES_MAX = 16 * 1024 * 1024;

/** The most bytes of stored properties that one request with a publishable or relay key may rewrite (L1). */
const REWRITTEN_BYTES_MAX = 4 * 1024 * 1024;

/** The budget of stored properties that the parts of one request share. */
export class CaptureBudget {
  #readBytes = 0;
  #rewrittenBytes = 0;

  read(properties: StoredPeople["properties"]): void {
    this.#readBytes += sizeOfProperties(properties);
    if (this.#readBytes <= READ_BYTES_MAX) return;
    throw tooManyProperties(`have more than ${READ_BYTES_MAX} bytes of properties`);
  }

  /** Call it before the properties are written. */
  rewrite(ctx: TenantCtx, { properties }: PeopleChange): void {
    if (!isCounted(ctx)) return;
    this.#rewrittenBytes += sizeOfProperties(properties.filter(({ version }) => version > 0));
    if (this.#rewrittenBytes <= REWRITTEN_BYTES_MAX) return;
    throw tooManyProperties(`change more than ${REWRITTEN_BYTES_MAX} bytes of stored properties`);
  }
}

const sizeOfProperties = (stored: StoredPeople["properties"]): number =>
  stored.reduce((sum, { properties }) => sum + utf8Length(properties), 0);

function tooManyProperties(reason: string): PurserError {
  return new PurserError("payload_too_large", `The ids of these events ${reason}. Send fewer events at a time.`);
}
