import * as z from "zod";
import { listAlertUsers } from "../../books/alerts/alerts.ts";
import { cursor, pageLimit } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { alertParams, loadAlert } from "./alert-shapes.ts";

const listAlertUsersInput = lazy(() =>
  z.object({ limit: pageLimit("users").meta(words("The most users in a page.", 50)), cursor }),
);

export default operation({
  id: "listAlertUsers",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/alerts/{alertId}/users",
  tag: "Administration",
  access: administrationOfRow("people", loadAlert),
  params: alertParams,
  query: listAlertUsersInput,
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({
          users: z
            .array(
              z
                .strictObject({ userId: z.string().meta(words("Your own id of the user.", "user_123")) })
                .meta({ id: "AlertUser" }),
            )
            .meta(words("The users.")),
          nextCursor,
        })
        .meta({ id: "AlertUserPage" }),
    summary: "List users for whom an alert has fired",
    description:
      "Returns the users for whom the alert has fired and who have stayed below the threshold since. They are " +
      "recorded only while the environment has an enabled endpoint.",
    returns: "A page of users.",
    example: () => ({ output: { users: [{ userId: "user_123" }], nextCursor: null } }),
  }),
  handler: ({ admin, row }, { query }) => listAlertUsers(admin, row, query),
});
