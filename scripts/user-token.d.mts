/** A user token like that of an integrator's sign-in, valid for a day. */
export function userToken(endUserSecret: string, user: string): Promise<string>;
