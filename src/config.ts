/** The environment, read once and checked at the start; nobody else reads `process.env`. */
import type { TSchema } from '@sinclair/typebox'
import { Ajv } from 'ajv'
import { expects } from './config/expects.ts'
import { formats } from './config/formats.ts'
import { type Problem, rules } from './config/rules.ts'
import { type Config, Settings } from './config/settings.ts'

export { type Config, Settings } from './config/settings.ts'
export { settingsTable } from './config/table.ts'

/** Everything that is wrong with the settings, one line each; no line holds a secret. */
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
const isConfig = ajv.compile<Config>(Settings)

/** The text as the type that its schema asks for; what does not fit stays text, which the check then refuses. */
function read(schema: TSchema, text: string): unknown {
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

/** Only numbers, flags and words of a fixed choice are shown again: anything else might be a secret. */
function refusal(name: string, schema: TSchema, text: string): Problem {
  const shown = schema.type === 'integer' || schema.type === 'boolean' || 'enum' in schema
  const echo = shown ? `, not ${JSON.stringify(text.slice(0, 40))}` : ''
  return [name, `must be ${expects(schema)}${echo}`]
}

/** What a setting is when nothing is said: undefined for one that has no default. */
function fallback(schema: TSchema, production: boolean): unknown {
  return production && 'production' in schema ? schema.production : schema.default
}

/**
 * The settings of `env`, where an empty text counts as none.
 * @throws ConfigError with all that is wrong with them
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const production = env.NODE_ENV === 'production'
  const config: Record<string, unknown> = {}
  const problems: Problem[] = []
  for (const [name, schema] of Object.entries(Settings.properties)) {
    const usual = fallback(schema, production)
    if (usual !== undefined) config[name] = Object.freeze(usual)
    const text = env[name]
    // `TRUST_PROXY=false` is how one would switch it off, and means the same as nothing.
    if (!text || (name === 'TRUST_PROXY' && text === 'false')) continue
    const value = read(schema, text)
    if (ajv.validate(schema, value)) config[name] = value
    else problems.push(refusal(name, schema, text))
  }
  const broken = new Set(problems.map(([name]) => name))
  if (!isConfig(config)) throw new TypeError(ajv.errorsText(isConfig.errors))
  problems.push(...rules({ config, broken }).filter(([name]) => !broken.has(name)))
  if (problems.length > 0) throw new ConfigError(problems.map(([name, says]) => `${name} ${says}`))
  return Object.freeze(config)
}
