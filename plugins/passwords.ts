/** Passwords: Argon2id at OWASP's parameters, off the event loop, a bounded number at once. */
import { hash, verify } from '@node-rs/argon2'
import limit from 'p-limit'

/** 19 MiB, two passes, one lane: OWASP's first choice. The algorithm is the library's default, Argon2id. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** Hashing holds a thread of libuv's four and 19 MiB: two at once leave room for all else that uses them. */
const AT_ONCE = 2

const turn = limit(AT_ONCE)

export const hashPassword = (password: string): Promise<string> => turn(() => hash(password, PARAMETERS))

/** Whether a password is the one that was hashed; without a hash, none is. */
export const verifyPassword = (hashed: string | null, password: string): Promise<boolean> =>
  hashed === null ? Promise.resolve(false) : turn(() => verify(hashed, password))
