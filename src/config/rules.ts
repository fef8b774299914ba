/** What settings demand of one another, and what production demands of them all. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { readPem } from './pem.ts'
import { parsePrivateKeys } from './private-keys.ts'
import { type Config, type SettingName, Settings } from './settings.ts'

/** What is wrong with one setting: its name and the rest of the sentence, which never holds its value. */
export type Problem = [name: string, says: string]

/** The settings, with the default where one is `broken`, so that all can be said at once. */
interface Draft {
  config: Config
  broken: ReadonlySet<string>
}

/** Whether the setting was given, be it well formed or not. */
function given({ config, broken }: Draft, name: SettingName): boolean {
  return config[name] !== undefined || broken.has(name)
}

function works(action: () => unknown): boolean {
  try {
    action()
    return true
  } catch {
    return false
  }
}

/** Names those of a group that are missing while others of it are set. */
function together(draft: Draft, ...group: readonly SettingName[]): Problem[] {
  const missing = group.filter((name) => !given(draft, name))
  if (missing.length === 0 || missing.length === group.length) return []
  return missing.map((name) => [name, `is missing: ${group.join(', ')} are set together or not at all`])
}

/** OpenSSL alone takes a key of another kind than the certificate's without a word. */
function fit(key: string, cert: string): void {
  createSecureContext({ key, cert })
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) throw new Error('another key')
}

function tls(config: Config): Problem[] {
  const names = ['TLS_KEY', 'TLS_CERT'] as const
  const unread = names.filter(
    (name) => config[name] !== undefined && !works(() => readPem(config[name] ?? '')),
  )
  if (unread.length > 0) return unread.map((name) => [name, 'is neither PEM nor a file that can be read'])
  const { TLS_KEY, TLS_CERT } = config
  if (TLS_KEY === undefined || TLS_CERT === undefined) return []
  return works(() => fit(readPem(TLS_KEY), readPem(TLS_CERT)))
    ? []
    : [['TLS_CERT', 'and TLS_KEY are no certificate and the private key that belongs to it']]
}

/** What `compose.yaml` sets where the operator sets nothing; everybody can read it there. */
const TRIAL_SECRETS = [
  'TRIAL-secret-that-everybody-knows',
  'TRIAL-key-that-everybody-knows-too',
  'TRIALpassword',
]

/**
 * Plain HTTP without a proxy is the trial that `compose.yaml` starts on one machine: only that may use its secrets. A
 * server with TLS or behind a proxy is not a trial, whatever INSECURE_HTTP says.
 */
const isTrial = (draft: Draft): boolean =>
  draft.config.INSECURE_HTTP && !given(draft, 'TLS_KEY') && !given(draft, 'TRUST_PROXY')

/** Names the secrets of the trial in whatever setting they stand, a password within a URL too. */
function findTrialSecrets(draft: Draft): Problem[] {
  const values: Readonly<Record<string, unknown>> = draft.config
  const isTrialSecret = (name: string) =>
    TRIAL_SECRETS.some((secret) => String(values[name]).includes(secret))
  return Object.entries(Settings.properties)
    .filter(([name, schema]) => 'secret' in schema && schema.secret === true && isTrialSecret(name))
    .map(([name]) => [name, 'holds a secret of compose.yaml, which everybody knows: set one of your own'])
}

function production(draft: Draft): Problem[] {
  if (draft.config.NODE_ENV !== 'production') return []
  const problems: Problem[] = []
  if (!given(draft, 'APP_SECRET')) {
    problems.push([
      'APP_SECRET',
      'is required in production: 32 characters or more, the same on every replica (openssl rand -base64 48)',
    ])
  }
  const insecure = draft.config.INSECURE_HTTP || draft.broken.has('INSECURE_HTTP')
  if (!insecure && !given(draft, 'TLS_KEY') && !given(draft, 'TLS_CERT') && !given(draft, 'TRUST_PROXY')) {
    problems.push([
      'TLS_KEY',
      'is required in production, with TLS_CERT; or TRUST_PROXY where a proxy ends TLS; or INSECURE_HTTP=true for a trial',
    ])
  }
  const { AUTH_JWKS_URL: jwksUrl } = draft.config
  if (jwksUrl !== undefined && new URL(jwksUrl).protocol !== 'https:') {
    problems.push([
      'AUTH_JWKS_URL',
      'must be an https:// URL in production: who changes the keys signs in as anybody',
    ])
  }
  return isTrial(draft) ? problems : [...problems, ...findTrialSecrets(draft)]
}

/** What is wrong between settings of which each alone is well formed. */
export function rules(draft: Draft): Problem[] {
  const { config } = draft
  const problems = [
    ...together(draft, 'TLS_KEY', 'TLS_CERT'),
    ...together(draft, 'AUTH_JWKS_URL', 'AUTH_ISSUER', 'AUTH_AUDIENCE'),
    ...tls(config),
    ...production(draft),
  ]
  if (config.DATABASE_REPLICA_URLS.length > 0 && !given(draft, 'DATABASE_URL')) {
    problems.push(['DATABASE_REPLICA_URLS', 'needs DATABASE_URL, the primary that takes the writes'])
  }
  const keys = config.JWT_PRIVATE_KEY
  if (keys !== undefined && !works(() => parsePrivateKeys(keys))) {
    problems.push(['JWT_PRIVATE_KEY', 'must be one or more Ed25519 private keys, as PEM or JWK'])
  }
  if (config.METRICS_PORT !== undefined && config.METRICS_PORT === config.PORT && config.PORT !== 0) {
    problems.push(['METRICS_PORT', 'must differ from PORT; for /metrics on the main port set METRICS_TOKEN'])
  }
  if (config.ADMIN_PASSWORD?.toLowerCase() === config.ADMIN_EMAIL.toLowerCase()) {
    problems.push(['ADMIN_PASSWORD', 'must not be the e-mail'])
  }
  return problems
}
