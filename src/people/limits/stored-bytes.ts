import { type SQL, sql } from "drizzle-orm";
import { analyticsEvents } from "../../db/schema.ts";
import { utf8Length } from "../../lib/encoding.ts";

/** The fixed bytes of a stored event and of an id's record, without their texts. */
export const EVENT_BYTES = 400;

const RECORD_BYTES = 600;

/** Returns the stored bytes of an event. Its id counts twice, because an index has it too. */
export const estimateStoredBytes = ({ distinctId, event, properties }: CountedEvent): number =>
  EVENT_BYTES + 2 * utf8Length(distinctId) + utf8Length(event) + utf8Length(properties);

/** Returns the bytes of an id's record. */
export const estimateRecordBytes = (distinctId: string): number => RECORD_BYTES + 3 * utf8Length(distinctId);

/** SQL: the stored bytes of a row of `analyticsEvents`. */
export const storedBytes = () => {
  const { distinctId, event, properties } = analyticsEvents;
  return sql`(${EVENT_BYTES} + 2 * octet_length(${distinctId}) + octet_length(${event}) + octet_length(${properties}))`;
};

/** SQL: the bytes of an id's record. */
export const recordBytes = (distinctId: SQL) => sql`(${RECORD_BYTES} + 3 * octet_length(${distinctId}))`;

/** The parts of an event that are counted. */
export interface CountedEvent {
  readonly uuid: string;
  readonly distinctId: string;
  readonly event: string;
  /** JSON. */
  readonly properties: string;
}
