/** The rules that concern several settings, and those of production. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { allSettings, type SettingName } from './all-settings.ts'
import { parsePrivateKeys, readPem } from './keys.ts'
import type { Config } from './settings.ts'

/** An invalid setting: its name and the rest of the sentence, which never contains its value. */
export type Problem = [name: string, text: string]

/** The settings; an `invalid` one has its default, so that all problems can be reported together. */
interface Draft {
  config: Config
  invalid: ReadonlySet<string>
}

/** Returns whether the setting has a value, valid or not. */
function isSet({ config, invalid }: Draft, name: SettingName): boolean {
  return config[name] !== undefined || invalid.has(name)
}

function succeeds(action: () => unknown): boolean {
  try {
    action()
    return true
  } catch {
    return false
  }
}

/** Reports the missing settings of a group of which others are set. */
function checkGroup(draft: Draft, ...group: readonly SettingName[]): Problem[] {
  const missing = group.filter((name) => !isSet(draft, name))
  if (missing.length === 0 || missing.length === group.length) return []
  return missing.map((name) => [name, `is missing: set all of ${group.join(', ')}, or none of them`])
}

/** @throws if the key does not belong to the certificate. OpenSSL itself accepts a key of another type. */
function assertKeyPair(key: string, cert: string): void {
  createSecureContext({ key, cert })
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) throw new Error('key mismatch')
}

function checkTls(config: Config): Problem[] {
  const names = ['TLS_KEY', 'TLS_CERT'] as const
  const unreadable = names.filter(
    (name) => config[name] !== undefined && !succeeds(() => readPem(config[name] ?? '')),
  )
  if (unreadable.length > 0) {
    return unreadable.map((name) => [name, 'must be PEM or the path of a readable file'])
  }
  const { TLS_KEY, TLS_CERT } = config
  if (TLS_KEY === undefined || TLS_CERT === undefined) return []
  return succeeds(() => assertKeyPair(readPem(TLS_KEY), readPem(TLS_CERT)))
    ? []
    : [['TLS_CERT', 'and TLS_KEY must be a certificate and its private key']]
}

/** Without MAIL_URL, the files of mails outside production have a sender all the same. */
function checkMail(draft: Draft): Problem[] {
  const problems: Problem[] = []
  if (isSet(draft, 'MAIL_URL') && !isSet(draft, 'MAIL_FROM'))
    problems.push(['MAIL_FROM', 'is required with MAIL_URL: the address from which mails are sent'])
  const key = draft.config.MAIL_DKIM_KEY
  if (key !== undefined && !succeeds(() => createPrivateKey(readPem(key))))
    problems.push(['MAIL_DKIM_KEY', 'must be a private key as PEM, or the path of a readable file'])
  return problems
}

/** The reads after a write may arrive at another process than the write. */
function checkWorkers(draft: Draft): Problem[] {
  if (!isSet(draft, 'DATABASE_URL'))
    return [['WORKERS', 'requires DATABASE_URL above 1: one process uses the embedded database']]
  if (draft.config.DATABASE_REPLICA_URLS.length === 0 || isSet(draft, 'REDIS_URL')) return []
  return [['WORKERS', 'requires REDIS_URL above 1 with DATABASE_REPLICA_URLS: it says who wrote recently']]
}

/** The secrets in `compose.yaml`, which are public. */
const TRIAL_SECRETS = [
  'TRIAL-secret-that-everybody-knows',
  'TRIAL-key-that-everybody-knows-too',
  'TRIALpassword',
]

/**
 * Returns whether this is the trial that `compose.yaml` starts on one machine: plain HTTP without a proxy. Only a trial
 * may use the secrets of `compose.yaml`. With TLS or behind a proxy it is none, even with INSECURE_HTTP=true.
 */
const isTrial = (draft: Draft): boolean =>
  draft.config.INSECURE_HTTP && !isSet(draft, 'TLS_KEY') && !isSet(draft, 'TRUST_PROXY')

/** Reports every setting that contains a secret of `compose.yaml`, including passwords within URLs. */
function findTrialSecrets(draft: Draft): Problem[] {
  const values: Readonly<Record<string, unknown>> = draft.config
  const isTrialSecret = (name: string) =>
    TRIAL_SECRETS.some((secret) => String(values[name]).includes(secret))
  return Object.entries(allSettings.properties)
    .filter(([name, schema]) => 'secret' in schema && schema.secret === true && isTrialSecret(name))
    .map(([name]) => [
      name,
      'contains a secret of compose.yaml or compose.citus.yaml, which are public: set your own',
    ])
}

function checkProduction(draft: Draft): Problem[] {
  if (draft.config.NODE_ENV !== 'production') return []
  const problems: Problem[] = []
  if (!isSet(draft, 'APP_SECRET')) {
    problems.push([
      'APP_SECRET',
      'is required in production: 32 characters or more, the same for every server (openssl rand -base64 48)',
    ])
  }
  const isInsecure = draft.config.INSECURE_HTTP || draft.invalid.has('INSECURE_HTTP')
  if (!isInsecure && !isSet(draft, 'TLS_KEY') && !isSet(draft, 'TLS_CERT') && !isSet(draft, 'TRUST_PROXY')) {
    problems.push([
      'TLS_KEY',
      'is required in production, with TLS_CERT; or set TRUST_PROXY if a proxy terminates TLS, or INSECURE_HTTP=true for a trial',
    ])
  }
  if (draft.config.LOG_SQL)
    problems.push([
      'LOG_SQL',
      'must be false in production: the log would have what each user reads and writes',
    ])
  const { AUTH_JWKS_URL: jwksUrl } = draft.config
  if (jwksUrl !== undefined && new URL(jwksUrl).protocol !== 'https:') {
    problems.push([
      'AUTH_JWKS_URL',
      'must be an https:// URL in production: an attacker who replaces the keys can sign in as every user',
    ])
  }
  return isTrial(draft) ? problems : [...problems, ...findTrialSecrets(draft)]
}

/** Finds settings that are valid alone but not together, or not in production. */
export function findConflicts(draft: Draft): Problem[] {
  const { config } = draft
  const problems = [
    ...checkGroup(draft, 'TLS_KEY', 'TLS_CERT'),
    ...checkMail(draft),
    ...checkGroup(draft, 'MAIL_DKIM_DOMAIN', 'MAIL_DKIM_SELECTOR', 'MAIL_DKIM_KEY'),
    ...checkGroup(draft, 'AUTH_JWKS_URL', 'AUTH_ISSUER', 'AUTH_AUDIENCE'),
    ...checkTls(config),
    ...checkProduction(draft),
  ]
  if (config.DATABASE_REPLICA_URLS.length > 0 && !isSet(draft, 'DATABASE_URL')) {
    problems.push(['DATABASE_REPLICA_URLS', 'requires DATABASE_URL, the primary server for writes'])
  }
  if (config.WORKERS > 1) problems.push(...checkWorkers(draft))
  const keys = config.JWT_PRIVATE_KEY
  if (keys !== undefined && !succeeds(() => parsePrivateKeys(keys))) {
    problems.push(['JWT_PRIVATE_KEY', 'must be one or more Ed25519 private keys, as PEM or JWK'])
  }
  if (config.METRICS_PORT !== undefined && config.METRICS_PORT === config.PORT && config.PORT !== 0) {
    problems.push([
      'METRICS_PORT',
      'must differ from PORT; to serve /metrics on the main port, set METRICS_TOKEN',
    ])
  }
  if (config.ADMIN_PASSWORD?.toLowerCase() === config.ADMIN_EMAIL.toLowerCase()) {
    problems.push(['ADMIN_PASSWORD', 'must not equal ADMIN_EMAIL'])
  }
  return problems
}
