/** Paths of the API that many tests call. */
export const CREDITS = "/api/v1/credits";
/** The list of the credits of the user "u". */
export const LIST = `${CREDITS}?userId=u`;
export const RECURRING = `${CREDITS}/recurring`;
export const USAGE = "/api/v1/usage";
export const EVENTS = `${USAGE}/events`;
export const RESERVATIONS = `${USAGE}/reservations`;
export const ADMIN = "/api/v1/admin";
export const APPS = `${ADMIN}/apps`;
