/** Reads the settings from the environment and validates them; others read of `process.env` only `NODE_ENV`. */
import { identity } from '@resource-api/database'
import type { TSchema } from '@sinclair/typebox'
import { Ajv } from 'ajv'
import { allSettings, findInvalidNames } from './all-settings.ts'
import { describeExpected } from './describe-settings.ts'
import { explainInvalid, formats } from './formats.ts'
import { findConflicts, type Problem } from './rules.ts'
import type { Config } from './settings.ts'

/** All invalid settings, one line each; no line contains a secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.problems = problems
  }
}

const ajv = new Ajv({ allErrors: true, code: { optimize: false } })
ajv.addVocabulary(['secret', 'production'])
for (const [name, { check }] of Object.entries(formats)) ajv.addFormat(name, check)

/** Converts a text to the type of its schema. Text that cannot be converted stays text, which validation then rejects. */
function parseSetting(schema: TSchema, text: string): unknown {
  switch (schema.type) {
    case 'integer':
      return /^(0|[1-9][0-9]{0,14})$/.test(text) ? Number(text) : text
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : text
    case 'array':
      return Object.freeze(text.split(',').map((part) => part.trim()))
    default:
      return text
  }
}

/** Returns what is wrong with an invalid value, or with the first invalid part of a list. */
function findReason(schema: TSchema, text: string): string | undefined {
  if (schema.type !== 'array') return explainInvalid(schema.format, text)
  const parts = text.split(',').map((part) => part.trim())
  return parts.map((part) => explainInvalid(schema.items.format, part)).find((reason) => reason !== undefined)
}

/** Quotes the value only of a number, a flag or an enum. Other values may be secrets. */
function describeInvalid(name: string, schema: TSchema, text: string): Problem {
  const isQuoted = schema.type === 'integer' || schema.type === 'boolean' || 'enum' in schema
  const quote = isQuoted ? `, not ${JSON.stringify(text.slice(0, 40))}` : ''
  const reason = findReason(schema, text)
  return [name, `must be ${describeExpected(schema)}${quote}${reason === undefined ? '' : `: ${reason}`}`]
}

/** The default value of a setting; undefined if it has none. */
function getDefault(schema: TSchema, isProduction: boolean): unknown {
  return isProduction && 'production' in schema ? schema.production : schema.default
}

/**
 * Reads the settings of `env`. An empty value counts as not set.
 * @throws ConfigError with all invalid settings
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const invalidNames = findInvalidNames()
  if (invalidNames.length > 0) throw new ConfigError(invalidNames)
  const isProduction = env.NODE_ENV === 'production'
  const config: Record<string, unknown> = {}
  const problems: Problem[] = []
  const { properties } = allSettings
  for (const [name, schema] of Object.entries(properties)) {
    const defaultValue = getDefault(schema, isProduction)
    if (defaultValue !== undefined) config[name] = Object.freeze(defaultValue)
    const text = env[name]
    // `TRUST_PROXY=false` is accepted as the obvious way to switch it off, and means the same as not set.
    if (!text || (name === 'TRUST_PROXY' && text === 'false')) continue
    const value = parseSetting(schema, text)
    if (ajv.validate(schema, value)) config[name] = value
    else problems.push(describeInvalid(name, schema, text))
  }
  const invalid = new Set(problems.map(([name]) => name))
  if (!ajv.validate<Config>(allSettings, config)) throw new TypeError(ajv.errorsText(ajv.errors))
  problems.push(...findConflicts({ config, invalid }).filter(([name]) => !invalid.has(name)))
  if (problems.length > 0) throw new ConfigError(problems.map(([name, text]) => `${name} ${text}`))
  return Object.freeze(config)
}

/** Returns the port of the server of this machine, without a check of the other settings. @throws ConfigError */
export const readClientPort = ({ PORT }: NodeJS.ProcessEnv = process.env): number => readConfig({ PORT }).PORT

/** Returns the API key of commands that call a server. The server has no such setting. An empty value counts as not set. */
export const readClientKey = (env: NodeJS.ProcessEnv = process.env): string | undefined =>
  env[identity.keyVariable] || undefined
