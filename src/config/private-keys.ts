/** Reads the keys of `JWT_PRIVATE_KEY`: PEM blocks one after another, a JWK, an array of them, or a JWK set. */
import { createPrivateKey, type JsonWebKey, type KeyObject } from 'node:crypto'

const PEM_BEGIN = '-----BEGIN '

/** The blocks of a text. What stands before the first one, and behind the end of each, is not looked at. */
const splitPem = (text: string): string[] =>
  text
    .split(PEM_BEGIN)
    .slice(1)
    .map((block) => PEM_BEGIN + block)

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isJwk(value: unknown): value is JsonWebKey {
  return isRecord(value) && typeof value.kty === 'string'
}

function fromJson(text: string): KeyObject[] {
  const parsed: unknown = JSON.parse(text)
  const keys: unknown = isRecord(parsed) && 'keys' in parsed ? parsed.keys : parsed
  return [keys].flat().map((key) => {
    if (!isJwk(key)) throw new TypeError('not a JWK')
    return createPrivateKey({ key, format: 'jwk' })
  })
}

/** @throws when there is no key in the text, or one that is no Ed25519 private key */
export function parsePrivateKeys(text: string): KeyObject[] {
  const keys = /^\s*[[{]/.test(text)
    ? fromJson(text)
    : splitPem(text.replaceAll('\\n', '\n')).map((block) => createPrivateKey(block))
  if (keys.length === 0 || keys.some((key) => key.asymmetricKeyType !== 'ed25519')) {
    throw new TypeError('not one or more Ed25519 private keys')
  }
  return keys
}
