import changeAlert from "./alerts/change-alert.ts";
import createAlert from "./alerts/create-alert.ts";
import deleteAlert from "./alerts/delete-alert.ts";
import getExpiryNotices from "./alerts/get-expiry-notices.ts";
import listAlertUsers from "./alerts/list-alert-users.ts";
import listAlerts from "./alerts/list-alerts.ts";
import setExpiryNotices from "./alerts/set-expiry-notices.ts";
import captureEvents from "./analytics/capture-events.ts";
import captureEventsV1 from "./analytics/capture-events-v1.ts";
import getFeatureFlags from "./analytics/get-feature-flags.ts";
import getRemoteConfig from "./analytics/get-remote-config.ts";
import getRemoteConfigScript from "./analytics/get-remote-config-script.ts";
import createApp from "./apps/create-app.ts";
import getEndUserAuth from "./apps/get-end-user-auth.ts";
import getEnvironmentUsage from "./apps/get-environment-usage.ts";
import getLimits from "./apps/get-limits.ts";
import getTestClock from "./apps/get-test-clock.ts";
import listApps from "./apps/list-apps.ts";
import removeTestClock from "./apps/remove-test-clock.ts";
import setEndUserAuth from "./apps/set-end-user-auth.ts";
import setLimits from "./apps/set-limits.ts";
import setTestClock from "./apps/set-test-clock.ts";
import listAudit from "./audit/list-audit.ts";
import listDeploymentAudit from "./audit/list-deployment-audit.ts";
import adjustBalance from "./credits/adjust-balance.ts";
import grantCredits from "./credits/grant-credits.ts";
import listBalances from "./credits/list-balances.ts";
import listCreditUsers from "./credits/list-credit-users.ts";
import listLedgerEntries from "./credits/list-ledger-entries.ts";
import previewDebit from "./credits/preview-debit.ts";
import refundCredits from "./credits/refund-credits.ts";
import revokeBalance from "./credits/revoke-balance.ts";
import verifyUser from "./credits/verify-user.ts";
import verifyUsers from "./credits/verify-users.ts";
import createExportLink from "./exports/create-export-link.ts";
import downloadExport from "./exports/download-export.ts";
import getExportDocumentSchema from "./exports/get-export-document-schema.ts";
import revokeExportLinks from "./exports/revoke-export-links.ts";
import createAdminKey from "./keys/create-admin-key.ts";
import createKey from "./keys/create-key.ts";
import listAdminKeys from "./keys/list-admin-keys.ts";
import listKeys from "./keys/list-keys.ts";
import revokeAdminKey from "./keys/revoke-admin-key.ts";
import revokeKey from "./keys/revoke-key.ts";
import type { Operation } from "./operation.ts";
import archivePack from "./packs/archive-pack.ts";
import createPack from "./packs/create-pack.ts";
import listPacks from "./packs/list-packs.ts";
import restorePack from "./packs/restore-pack.ts";
import updatePack from "./packs/update-pack.ts";
import getStripe from "./payments/get-stripe.ts";
import listPayments from "./payments/list-payments.ts";
import listStripeEvents from "./payments/list-stripe-events.ts";
import receiveStripeEvent from "./payments/receive-stripe-event.ts";
import setCarry from "./payments/set-carry.ts";
import setStripe from "./payments/set-stripe.ts";
import settlePayment from "./payments/settle-payment.ts";
import erasePerson from "./people/erase-person.ts";
import forgetTombstones from "./people/forget-tombstones.ts";
import getErasure from "./people/get-erasure.ts";
import liftErasure from "./people/lift-erasure.ts";
import recordConsent from "./people/record-consent.ts";
import deletePriceList from "./prices/delete-price-list.ts";
import getPriceList from "./prices/get-price-list.ts";
import listPriceLists from "./prices/list-price-lists.ts";
import setPrices from "./prices/set-prices.ts";
import cancelRecurringGrant from "./recurring/cancel-recurring-grant.ts";
import createRecurringGrant from "./recurring/create-recurring-grant.ts";
import listRecurringGrants from "./recurring/list-recurring-grants.ts";
import resumeRecurringGrant from "./recurring/resume-recurring-grant.ts";
import commitReservation from "./reservations/commit-reservation.ts";
import createReservation from "./reservations/create-reservation.ts";
import extendReservation from "./reservations/extend-reservation.ts";
import getReservation from "./reservations/get-reservation.ts";
import listReservations from "./reservations/list-reservations.ts";
import releaseReservation from "./reservations/release-reservation.ts";
import checkHealth from "./service/check-health.ts";
import getOpenApi from "./service/get-open-api.ts";
import createStatement from "./statements/create-statement.ts";
import getStatement from "./statements/get-statement.ts";
import listStatements from "./statements/list-statements.ts";
import getUnitNames from "./unit-names/get-unit-names.ts";
import getUnitNamesOfApp from "./unit-names/get-unit-names-of-app.ts";
import setUnitNames from "./unit-names/set-unit-names.ts";
import getUsageTotals from "./usage/get-usage-totals.ts";
import listUsageEvents from "./usage/list-usage-events.ts";
import listUsageMembers from "./usage/list-usage-members.ts";
import previewPrice from "./usage/price-usage.ts";
import recordUsageEvent from "./usage/record-usage-event.ts";
import recordUsageEvents from "./usage/record-usage-events.ts";
import changeUsageLimit from "./usage-limits/change-usage-limit.ts";
import createUsageLimit from "./usage-limits/create-usage-limit.ts";
import deleteUsageLimit from "./usage-limits/delete-usage-limit.ts";
import getUsageLimits from "./usage-limits/get-usage-limits.ts";
import listUsageLimits from "./usage-limits/list-usage-limits.ts";
import removeOwnUsageLimit from "./usage-limits/remove-own-usage-limit.ts";
import setOwnUsageLimit from "./usage-limits/set-own-usage-limit.ts";
import changeWebhook from "./webhooks/change-webhook.ts";
import createWebhook from "./webhooks/create-webhook.ts";
import deleteWebhook from "./webhooks/delete-webhook.ts";
import listDeliveries from "./webhooks/list-deliveries.ts";
import listWebhooks from "./webhooks/list-webhooks.ts";
import replayMessages from "./webhooks/replay-messages.ts";
import resendMessage from "./webhooks/resend-message.ts";
import rotateWebhookSecret from "./webhooks/rotate-webhook-secret.ts";
import testWebhook from "./webhooks/test-webhook.ts";

/** Every operation, in the reference's order. */
export const operations: readonly Operation[] = [
  createApp,
  listApps,
  setEndUserAuth,
  getEndUserAuth,
  setLimits,
  getLimits,
  setTestClock,
  getTestClock,
  removeTestClock,
  createPack,
  listPacks,
  updatePack,
  archivePack,
  restorePack,
  setPrices,
  listPriceLists,
  getPriceList,
  deletePriceList,
  setUnitNames,
  getUnitNamesOfApp,
  getUnitNames,
  createKey,
  listKeys,
  revokeKey,
  createAdminKey,
  listAdminKeys,
  revokeAdminKey,
  listAudit,
  listDeploymentAudit,
  grantCredits,
  revokeBalance,
  refundCredits,
  createRecurringGrant,
  listRecurringGrants,
  cancelRecurringGrant,
  resumeRecurringGrant,
  adjustBalance,
  listBalances,
  listLedgerEntries,
  listCreditUsers,
  previewDebit,
  verifyUser,
  verifyUsers,
  createStatement,
  listStatements,
  getStatement,
  recordUsageEvent,
  recordUsageEvents,
  previewPrice,
  listUsageEvents,
  listUsageMembers,
  getUsageTotals,
  getEnvironmentUsage,
  createReservation,
  listReservations,
  getReservation,
  commitReservation,
  extendReservation,
  releaseReservation,
  getUsageLimits,
  setOwnUsageLimit,
  removeOwnUsageLimit,
  createUsageLimit,
  listUsageLimits,
  changeUsageLimit,
  deleteUsageLimit,
  captureEvents,
  captureEventsV1,
  getFeatureFlags,
  getRemoteConfig,
  getRemoteConfigScript,
  recordConsent,
  erasePerson,
  getErasure,
  liftErasure,
  forgetTombstones,
  createExportLink,
  revokeExportLinks,
  downloadExport,
  getExportDocumentSchema,
  receiveStripeEvent,
  setStripe,
  getStripe,
  listStripeEvents,
  listPayments,
  setCarry,
  settlePayment,
  createWebhook,
  listWebhooks,
  changeWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  testWebhook,
  listDeliveries,
  resendMessage,
  replayMessages,
  createAlert,
  listAlerts,
  changeAlert,
  listAlertUsers,
  deleteAlert,
  setExpiryNotices,
  getExpiryNotices,
  checkHealth,
  getOpenApi,
];
