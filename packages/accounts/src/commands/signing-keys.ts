/** `signing-keys rotate`: prints a JWT_PRIVATE_KEY that starts with a new key and keeps the current ones. */
import { generateKeyPairSync } from 'node:crypto'
import { Command } from '@commander-js/extra-typings'
import { loadAppSecret, parsePrivateKeys, readConfig } from '@resource-api/http/config'
import { createKeyFromSecret, toSigningKey } from '../auth/tokens/access-token.ts'

async function rotate(): Promise<void> {
  const config = readConfig()
  const currentKeys =
    config.JWT_PRIVATE_KEY === undefined
      ? [createKeyFromSecret(await loadAppSecret(config))]
      : parsePrivateKeys(config.JWT_PRIVATE_KEY)
  const newKey = generateKeyPairSync('ed25519').privateKey
  const jwks = [newKey, ...currentKeys].map((key) => key.export({ format: 'jwk' }))
  console.error(
    `The new key is ${toSigningKey(newKey).kid}. Set JWT_PRIVATE_KEY to the following value and restart the servers.`,
  )
  console.log(JSON.stringify(jwks))
}

export const signingKeysRotate = new Command('rotate')
  .description('Print a JWT_PRIVATE_KEY that starts with a new key')
  .addHelpText(
    'after',
    `
The first key signs and all keys verify, so users stay signed in. Set the value on every server. If several servers
run, first add the new key at the end on each of them, so that all can verify its tokens before one server signs
with it. After ACCESS_TOKEN_TTL the old keys can be removed. Only standard output contains the secret.`,
  )
  .action(rotate)
