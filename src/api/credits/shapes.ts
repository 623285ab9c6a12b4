export const nextExpiresAt = "2027-01-15T12:00:00.000Z";
