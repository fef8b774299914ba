/**
 * Hashes passwords with little memory and time. A hash of the service takes 25 ms of CPU, and most tests that need a
 * password need no strong hash. Tests of the hashes themselves pass `argon2` to `testApp`.
 */
import { hash } from '@node-rs/argon2'
import { argon2, type PasswordHasher } from '../../plugins/auth/passwords.ts'

const PARAMETERS = { memoryCost: 64, timeCost: 1, parallelism: 1 }

export const quickHasher: PasswordHasher = {
  hash: (password) => hash(password, PARAMETERS),
  // A hash contains its parameters.
  verify: argon2.verify,
}
