import { type IntakeOperations, intake } from "./generated/intake.ts";
import { clientOf } from "./index.ts";

export type { IntakeOperations } from "./generated/intake.ts";

/** A client for services that forward data to Purser: analytics in PostHog's format, and Stripe's events. */
export class PurserIntake extends clientOf<IntakeOperations>(intake) {}
