/** The application of the bench, in the one database that it has. */
export const APP_ID = `app_${"b".repeat(22)}0`;
