/** Reads `REDIS_URL`. ioredis takes any parameter as one of its options, and `REDISS://` as Redis without TLS. */
import { parseServiceUrl, UrlError } from '@resource-api/database/values'

/** @throws UrlError */
export function parseRedisUrl(text: string) {
  const {
    scheme,
    host,
    port = 6379,
    user,
    password,
    path,
    parameters,
  } = parseServiceUrl(text, ['redis', 'rediss'], { family: ['0', '4', '6'] })
  if (!/^[0-9]{0,5}$/.test(path))
    throw new UrlError('its path must be the number of a database, such as /1, or absent')
  if (port === 0) throw new UrlError('its port must be a number from 1 to 65535')
  if (user !== '' && password === '') throw new UrlError('it has a user without a password')
  const family = parameters.get('family')
  return {
    host,
    port,
    db: Number(path),
    ...(user && { username: user }),
    ...(password && { password }),
    ...(family !== undefined && { family: Number(family) }),
    ...(scheme === 'rediss' && { tls: {} }),
  }
}
