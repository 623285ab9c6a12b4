import { SignJWT } from "jose";

/** A user token like that of an integrator's sign-in: HS256, `sub` is the user id, valid for a day. */
export function userToken(endUserSecret, user) {
  return new SignJWT({})
    .setProtectedHeader({ alg: "HS256" })
    .setSubject(user)
    .setIssuedAt()
    .setExpirationTime("24h")
    .sign(new TextEncoder().encode(endUserSecret));
}
