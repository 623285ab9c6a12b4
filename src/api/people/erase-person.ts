import { erasePerson } from "../../erasure/erase-person.ts";
import { erasePersonOutput } from "../../erasure/responses.ts";
import { erasePersonInput } from "../../erasure/schemas.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { counts, erasureId } from "./shapes.ts";

export default operation({
  id: "erasePerson",
  method: "post",
  path: "/api/v1/erase-person",
  tag: "People",
  access: secretKey(),
  body: erasePersonInput,
  output: () => erasePersonOutput,
  errors: ["changed_meanwhile", "erasure_unavailable"],
  replayable: true,
  summary: "Erase a person",
  description:
    "Deletes the person's data, and removes their names from the books. Remaining credits are revoked, and open " +
    "reservations are released. From then on, writes for these ids are `person_erased`, and their analytics events " +
    "get the usual response but are not stored. Try it with `dryRun: true` first. A repeat returns the same erasure, " +
    "and continues it if it is still running.",
  returns: "The erased data, or in a dry run the data that would be erased.",
  example: () => ({
    body: { distinctId: "user_42", reason: "request" },
    output: {
      erasureId,
      status: "completed",
      distinctIds: ["user_42", "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f"],
      distinctIdCount: 2,
      ...counts,
    },
  }),
  handler: (ctx, { body }) => erasePerson(ctx, body),
});
