/** The cron's work, once a minute. */
export async function scheduled(_env: Env): Promise<void> {}
