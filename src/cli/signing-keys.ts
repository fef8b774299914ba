/** `signing-keys rotate`: a new JWT_PRIVATE_KEY, with the keys so far behind the new one. */
import { generateKeyPairSync } from 'node:crypto'
import { createKeyFromSeed, toSigningKey } from '../../plugins/auth/tokens/signing-keys.ts'
import { parsePrivateKeys } from '../config/private-keys.ts'
import { readConfig } from '../config.ts'
import { appSecret, deriveKey } from '../secrets.ts'
import type { Command } from './command.ts'

async function rotate(): Promise<void> {
  const config = readConfig()
  const before =
    config.JWT_PRIVATE_KEY === undefined
      ? [createKeyFromSeed(deriveKey(await appSecret(config), 'access tokens'))]
      : parsePrivateKeys(config.JWT_PRIVATE_KEY)
  const next = generateKeyPairSync('ed25519').privateKey
  const jwks = [next, ...before].map((key) => key.export({ format: 'jwk' }))
  console.error(
    `The new key is ${toSigningKey(next).kid}. Set JWT_PRIVATE_KEY to what follows, and start the servers anew.`,
  )
  console.log(JSON.stringify(jwks))
}

export const signingKeysRotate: Command = {
  summary: 'Print a JWT_PRIVATE_KEY with a new key in front',
  details: `The first key signs, all verify: who is signed in stays so. Give it to all servers; where several run, add the
new key at the end first, so that each can verify what the others sign before one of them signs with it.
Once ACCESS_TOKEN_TTL has passed, the old keys can be dropped. The secret goes to standard output alone.`,
  options: {},
  run: rotate,
}
