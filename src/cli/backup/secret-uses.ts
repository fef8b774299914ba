/** What users notice if a database is served with another secret. Passwords and API keys do not depend on it. */
export const SECRET_USES =
  'With another secret, users have to sign in again, cursors are invalid, and requests with an Idempotency-Key that was used before are carried out again.'
