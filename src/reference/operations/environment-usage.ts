import { environmentUsageOutput } from "../../books/usage/responses.ts";
import { environmentUsageInput } from "../../books/usage/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, ofApp, path, tag } from "./administration.ts";

/** The operation on the usage of all users, for the administrator. */
export const environmentUsageOperations: readonly Operation[] = [
  {
    id: "getEnvironmentUsage",
    method: "get",
    path: path("/apps/{appId}/usage"),
    tag,
    access,
    summary: "Get the usage of all users",
    description:
      "What the users of one mode used on the days of `[from, to)`, in UTC, by `occurredAt`: by day, event, model or user. Of users it " +
      "answers the 100 largest by events and by each unit, together, the most events first. The totals follow within minutes: " +
      "what was received before `upTo` is in them. A span with more than 2,000,000 sums (one a user, day, event and model) is refused.",
    params: ofApp,
    query: environmentUsageInput,
    success: {
      description: "The totals, by time, event or model, none first; users by events.",
      schema: environmentUsageOutput,
      example: {
        totals: [
          { userId: "user_42", events: 310, quantities: { count: 310, tokens: 482_113 } },
          { userId: "user_7", events: 12, quantities: { count: 12, tokens: 1_200_000 } },
        ],
        upTo: "2026-01-31T12:04:07.512Z",
      },
    },
    errors: [],
  },
];
