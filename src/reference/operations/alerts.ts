import * as z from "zod";
import {
  alertOutput,
  expiryNoticesOutput,
  listAlertsOutput,
  listAlertUsersOutput,
} from "../../books/alerts/responses.ts";
import {
  changeAlertInput,
  createAlertInput,
  listAlertsInput,
  listAlertUsersInput,
  readExpiryNoticesInput,
  setExpiryNoticesInput,
} from "../../books/alerts/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, appId, createdAt, ofApp, path, tag } from "./administration.ts";

const ofAlert = z.object({ appId, alertId: z.string().describe("The id of the alert, `alr_…`.") });
const exampleAppId = "app_3kDw9pX1sB6vMn0qTzR7Ge";
const newAlert = { mode: "live", name: "Nearly used up", unit: "tokens", below: { percent: 20 } };
const alert = { alertId: "alr_7hNc4kR9wZ2yTfBq8mLx3D", event: null, createdAt, ...newAlert };
const notices = { mode: "live", days: [30, 7, 1] };

export const alertOperations: readonly Operation[] = [
  {
    id: "createAlert",
    method: "post",
    path: path("/apps/{appId}/alerts"),
    tag,
    access,
    summary: "Create an alert",
    description:
      "For one mode, at most 20. It sends `credits.low` when a debit, commit, refund, revoke, adjustment or expiry lowers a user's active balances in the unit, including holds, below the threshold. It fires again only after a grant, a restored payment or an adjustment has raised them to the threshold.",
    params: ofApp,
    body: { schema: createAlertInput, example: newAlert },
    success: { description: "The alert.", schema: alertOutput, example: alert, warns: true },
    errors: [],
  },
  {
    id: "listAlerts",
    method: "get",
    path: path("/apps/{appId}/alerts"),
    tag,
    access,
    summary: "List alerts",
    description: "Of one mode, oldest first.",
    params: ofApp,
    query: listAlertsInput,
    success: { description: "The alerts.", schema: listAlertsOutput, example: { alerts: [alert] } },
    errors: [],
  },
  {
    id: "changeAlert",
    method: "patch",
    path: path("/apps/{appId}/alerts/{alertId}"),
    tag,
    access,
    summary: "Change an alert",
    description:
      "Fields that are left out stay as they are; the unit cannot change. The alert starts again like a new one, so it may fire again for users for whom it has fired before.",
    params: ofAlert,
    body: { schema: changeAlertInput, example: { below: { percent: 10 } } },
    success: { description: "The alert.", schema: alertOutput, example: { ...alert, below: { percent: 10 } } },
    errors: [],
  },
  {
    id: "listAlertUsers",
    method: "get",
    path: path("/apps/{appId}/alerts/{alertId}/users"),
    tag,
    access,
    summary: "List users for whom an alert has fired",
    description:
      "Only users who have stayed below the threshold since. Stored only while the environment has an enabled endpoint.",
    params: ofAlert,
    query: listAlertUsersInput,
    success: {
      description: "A page of users.",
      schema: listAlertUsersOutput,
      example: { users: [{ userId: "user_123" }], nextCursor: null },
    },
    errors: [],
  },
  {
    id: "deleteAlert",
    method: "delete",
    path: path("/apps/{appId}/alerts/{alertId}"),
    tag,
    access,
    summary: "Delete an alert",
    description: "The alert sends no more messages.",
    params: ofAlert,
    success: { description: "The deleted alert.", schema: alertOutput, example: alert },
    errors: [],
  },
  {
    id: "setExpiryNotices",
    method: "put",
    path: path("/apps/{appId}/expiry-notices"),
    tag,
    access,
    summary: "Set when notices of expiry are sent",
    description:
      "For one mode; replaces the whole setting. `balance.expiring` is sent this number of days before a balance expires. There is no notice for a time before the grant, before the number was set, or before the first endpoint was created.",
    params: ofApp,
    body: { schema: setExpiryNoticesInput, example: notices },
    success: { description: "The setting.", schema: expiryNoticesOutput, example: { appId: exampleAppId, ...notices } },
    errors: [],
  },
  {
    id: "getExpiryNotices",
    method: "get",
    path: path("/apps/{appId}/expiry-notices"),
    tag,
    access,
    summary: "Get when notices of expiry are sent",
    description: "For one mode.",
    params: ofApp,
    query: readExpiryNoticesInput,
    success: { description: "The setting.", schema: expiryNoticesOutput, example: { appId: exampleAppId, ...notices } },
    errors: [],
  },
];
