/** Remote configuration and feature flags, which PostHog's clients request. Purser has none of them. */

/** A configuration with every optional feature off, so that the client's own settings decide. */
export function remoteConfig(token: string) {
  return {
    token,
    supportedCompression: ["gzip-js", "base64"],
    hasFeatureFlags: false,
    defaultIdentifiedOnly: true,
    isAuthenticated: false,
    toolbarParams: {},
    siteApps: [],
    autocapture_opt_out: false,
    autocaptureExceptions: false,
    captureDeadClicks: false,
    capturePerformance: false,
    elementsChainAsString: true,
    errorTracking: { autocaptureExceptions: false, suppressionRules: [] },
    heatmaps: false,
    logs: { captureConsoleLogs: false },
    conversations: false,
    productTours: false,
    sessionRecording: false,
    surveys: false,
  };
}

/** The same as a script, which posthog-js loads before it requests the JSON. */
export function remoteConfigScript(token: string): string {
  const entry = JSON.stringify({ config: remoteConfig(token), siteApps: [] });
  const name = JSON.stringify(token);
  return `(function(){window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};window._POSTHOG_REMOTE_CONFIG[${name}]=${entry};})();`;
}

/** A response without flags, in the formats of `/flags/` (v1 and v2) and of the older `/decide/` at once. */
export function emptyFlags(token: string, requestId: string, nowMs: number) {
  return {
    ...remoteConfig(token),
    flags: {},
    featureFlags: {},
    featureFlagPayloads: {},
    errorsWhileComputingFlags: false,
    quotaLimited: [],
    evaluatedAt: nowMs,
    requestId,
  };
}
