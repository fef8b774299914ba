/** Loads the client of Redis: only processes that use it need it. */
export const loadRedis = () => import('./redis.ts')
