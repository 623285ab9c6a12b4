import { SignJWT } from "jose";

/** The token that an integrator's own sign-in would give its user: HS256, `sub` names the user, a day long. */
export function userToken(endUserSecret, user) {
  return new SignJWT({})
    .setProtectedHeader({ alg: "HS256" })
    .setSubject(user)
    .setIssuedAt()
    .setExpirationTime("24h")
    .sign(new TextEncoder().encode(endUserSecret));
}
