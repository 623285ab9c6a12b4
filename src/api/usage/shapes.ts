import { EXAMPLE } from "../common.ts";
import { exampleDebit } from "../reservations/shapes.ts";

const { eventId } = EXAMPLE;

/** An example of the response to a usage event, and of the response to a commit. */
export const exampleDebits = { eventId, debits: [exampleDebit], uncovered: null };
