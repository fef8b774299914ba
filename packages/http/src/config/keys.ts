/** Reads the keys and certificates of settings. */
import { createPrivateKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isObject } from '@resource-api/database/values'

const PEM_BEGIN = '-----BEGIN '

/**
 * Reads PEM from a setting: the text itself, the text with escaped newlines (`\n`), or the path of a file.
 * @throws if the text is the path of a file that cannot be read
 */
export function readPem(text: string): string {
  return text.startsWith(PEM_BEGIN) ? text.replaceAll('\\n', '\n') : readFileSync(text, 'utf8')
}

/** Splits a text into its PEM blocks. Text before and between the blocks is ignored. */
const splitPem = (text: string): string[] =>
  text
    .split(PEM_BEGIN)
    .slice(1)
    .map((block) => PEM_BEGIN + block)

function isJwk(value: unknown): value is JsonWebKey {
  return isObject(value) && typeof value.kty === 'string'
}

function parseJwks(text: string): KeyObject[] {
  const parsed: unknown = JSON.parse(text)
  const keys: unknown = isObject(parsed) && 'keys' in parsed ? parsed.keys : parsed
  return [keys].flat().map((key) => {
    if (!isJwk(key)) throw new TypeError('not a JWK')
    return createPrivateKey({ key, format: 'jwk' })
  })
}

/**
 * Reads the keys of `JWT_PRIVATE_KEY`: concatenated PEM blocks, a JWK, an array of JWKs, or a JWK set.
 * @throws if the text contains no key, or a key other than an Ed25519 private key
 */
export function parsePrivateKeys(text: string): KeyObject[] {
  const keys = /^\s*[[{]/.test(text)
    ? parseJwks(text)
    : splitPem(text.replaceAll('\\n', '\n')).map((block) => createPrivateKey(block))
  if (keys.length === 0 || keys.some((key) => key.asymmetricKeyType !== 'ed25519')) {
    throw new TypeError('expected one or more Ed25519 private keys')
  }
  return keys
}
