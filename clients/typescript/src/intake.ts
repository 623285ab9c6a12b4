import { type IntakeOperations, intake } from "./generated/intake.ts";
import { clientOf } from "./index.ts";

export type { IntakeOperations } from "./generated/intake.ts";

/** What other services and SDKs send to Purser, for who passes it on: analytics in PostHog's format, and Stripe's events. */
export class PurserIntake extends clientOf<IntakeOperations>(intake) {}
