/** What users notice if a database is served with another secret. Passwords and API keys do not depend on it. */
export const SECRET_USES =
  'With another secret, users have to sign in again, cursors are invalid, webhook endpoints need new secrets, and a request with an Idempotency-Key of the last 24 hours is 422.'
