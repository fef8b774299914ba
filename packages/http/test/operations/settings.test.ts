/** Settings are validated, and all problems are reported together. */
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'tap'
import { testFolder } from '../../../testing/helpers/database.ts'
import { createCertificate } from '../../../testing/helpers/network.ts'
import { parsePrivateKeys } from '../../src/config/keys.ts'
import { ConfigError, readConfig } from '../../src/config/read-config.ts'
import { parseSmtpUrl } from '../../src/config/smtp-url.ts'
import { parseRedisUrl } from '../../src/rate-limit/redis-url.ts'

const SECRET = 'a secret of more than thirty-two characters'
const production = { NODE_ENV: 'production', APP_SECRET: SECRET, INSECURE_HTTP: 'true' }

/** What is wrong with the environment, one line each. */
function problems(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(env)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

test('an empty environment is valid outside production', async (t) => {
  const config = readConfig({})
  t.match(config, { NODE_ENV: 'development', HOST: '127.0.0.1', PORT: 3000, SHUTDOWN_DELAY: 0 })
  t.notOk('DATABASE_URL' in config, 'what is not set is not there')
  t.same(readConfig({ PORT: '', DATABASE_URL: '', TRUST_PROXY: '' }), config, 'an empty text counts as unset')
  t.match(readConfig(production), { HOST: '0.0.0.0', SHUTDOWN_DELAY: 5000 })
})

test("every problem is reported together, one line each with the setting's name", async (t) => {
  const wrong = {
    NODE_ENV: 'production',
    PORT: '65536',
    HOST: 'no host',
    LOG_LEVEL: 'loud',
    PUBLIC_URL: 'https://example.com/',
    DATABASE_URL: 'mysql://root@localhost/x',
    POOL_SIZE: '0',
    APP_SECRET: 'too short',
    ADMIN_EMAIL: 'nobody',
    ADMIN_PASSWORD: 'short',
    ADMIN_API_KEY: 'short',
    REQUIRE_IF_MATCH: 'yes',
    CORS_ORIGINS: 'https://a.example,b',
    TRUST_PROXY: '10.0.0.0/33',
    AUTH_JWKS_URL: 'ftp://keys',
    TLS_CERT: '/nowhere.pem',
  }
  const named = problems(wrong).map((line) => line.split(' ')[0])
  t.same(
    named.sort(),
    [...Object.keys(wrong).slice(1, -1), 'AUTH_AUDIENCE', 'AUTH_ISSUER', 'TLS_CERT', 'TLS_KEY'].sort(),
  )
})

test('no secret is printed', async (t) => {
  const names =
    'APP_SECRET ADMIN_PASSWORD ADMIN_API_KEY DATABASE_URL DATABASE_REPLICA_URLS REDIS_URL JWT_PRIVATE_KEY METRICS_TOKEN'
  const secrets = [...names.split(' '), 'TLS_KEY', 'TLS_CERT']
  const said = problems(Object.fromEntries(secrets.map((name) => [name, 'hunter2'])))
  t.equal(said.length, secrets.length)
  t.notMatch(said.join('\n'), /hunter2/)
})

test('numbers and flags are parsed strictly', async (t) => {
  for (const PORT of ['08', '1e3', '0x10', '-1', '3000.0', ' 3000', '3000 ', '٣', 'NaN', '65536']) {
    t.match(problems({ PORT }), [/^PORT must be an integer from 0 to 65535/], JSON.stringify(PORT))
  }
  for (const ALLOW_SIGNUP of ['1', 'yes', 'TRUE', 'on', ' true']) {
    t.match(problems({ ALLOW_SIGNUP }), [/^ALLOW_SIGNUP must be true or false/], ALLOW_SIGNUP)
  }
  t.equal(readConfig({ PORT: '0' }).PORT, 0)
  t.equal(readConfig({ ALLOW_SIGNUP: 'true' }).ALLOW_SIGNUP, true)
  t.match(problems({ DEFAULT_API_VERSION: '3' }), [/^DEFAULT_API_VERSION must be an integer from 1 to 2/])
})

test('addresses are validated', async (t) => {
  const bad = {
    PUBLIC_URL: ['//example.com', 'https://e.com/', 'https://e.com?a', 'https://u:p@e.com', 'ftp://e.com'],
    CORS_ORIGINS: ['*,https://a.example/', 'https://a.example/x', 'a.example', 'HTTPS://A.example'],
    TRUST_PROXY: ['0', '-1', '100', 'yes', '10.0.0.0/0', '10.0.0.0/8/8', '10.0.0', 'a.example', '10.0.0.1,,'],
    DATABASE_URL: ['http://localhost', 'redis:'],
    ADMIN_EMAIL: ['\u212aarl@example.com', 'jörg@example.com', 'a@b\u212a.example'],
    MAIL_FROM: [
      ...['Acme', 'Acme a@b.co', 'Acme <a@b.co', 'Acme a@b.co>', 'Acme <<a@b.co>>', 'Acme <a@b.co> x'],
      ...['<>', 'Acme <a@b.co> "x'],
      ...['a@b.co, c@d.co', 'A <a@b.co>, B <c@d.co>', 'Team: a@b.co;', 'Team: A <a@b.co>', 'a@b.co;'],
      ...['"Acme <a@b.co>', 'Acme (EU <a@b.co>', 'Acme ((EU)) <a@b.co>', 'Acme <a@b>', 'Acme <ä@b.co>'],
      ...['Acme\r\nBcc: x <a@b.co>', '"Acme\n" <a@b.co>', `${'x'.repeat(101)} <a@b.co>`, '"a b"@b.co'],
    ],
  }
  for (const [name, values] of Object.entries(bad))
    for (const value of values) t.equal(problems({ [name]: value }).length, 1, `${name}=${value}`)
  const good = {
    PUBLIC_URL: ['https://example.com/shop', 'HTTPS://Example.com'],
    CORS_ORIGINS: ['https://a.example, http://localhost:5173'],
    TRUST_PROXY: ['true', 'false', '1', 'loopback', '10.0.0.0/8, ::1', 'fd00::/8'],
    DATABASE_URL: ['postgres://u:p%40@localhost:5432/db?sslmode=require', 'postgresql://b'],
    REDIS_URL: ['rediss://localhost:6379/1'],
    APP_URL: ['HTTPS://app.example.com/account', 'HTTP://localhost:5173'],
    MAIL_FROM: [
      ...['a@b.co', '<a@b.co>', 'Acme <a@b.co>', 'Acme Inc. <a@b.co>', '"Acme, Inc." <a@b.co>'],
      ...['Acme (EU) <a@b.co>', 'a@b.co (Acme)', '"Say \\"hi\\" \\\\ (x)" <a@b.co>', 'Söhne & Co <a@b.co>'],
    ],
  }
  for (const [name, values] of Object.entries(good))
    for (const value of values) t.same(problems({ [name]: value }), [], `${name}=${value}`)
  t.equal(readConfig({ TRUST_PROXY: 'false' }).TRUST_PROXY, undefined)
  t.equal(readConfig({ ADMIN_EMAIL: 'Karl@example.com' }).ADMIN_EMAIL, 'Karl@example.com')
  t.match(problems({ ADMIN_EMAIL: 'jörg@example.com' }), [/^ADMIN_EMAIL must be an email address in ASCII/])
})

test('nothing in the URL of a service is ignored: what is not supported stops the start by its name', async (t) => {
  const bad: Record<string, [url: string, reason: RegExp][]> = {
    DATABASE_URL: [
      // packages/database/test/connection-uris.test.ts has the others.
      ['postgres://u:hunter2@db/shop?sslmod=require', /parameter "sslmod" is not supported/],
    ],
    DATABASE_REPLICA_URLS: [
      ['postgres://a,postgres://u:hunter2@b?sslmod=require', /parameter "sslmod" is not supported/],
    ],
    REDIS_URL: [
      ['redis://u:hunter2@cache?tls=true', /parameter "tls" is not supported/],
      ['redis://u:hunter2@cache/0?ssl_cert_reqs=none', /parameter "ssl_cert_reqs" is not supported/],
      ['redis://u:hunter2@cache?keyPrefix=x', /parameter "keyPrefix" is not supported/],
      ['redis://u:hunter2@cache/zero', /number of a database/],
      ['redis://u:hunter2@cache/1/2', /number of a database/],
      ['redis://cache/-1', /number of a database/],
      ['redis://u@cache', /user without a password/],
      ['redis:cache', /the form/],
      ['redis:///0', /the form/],
      ['redis://:hunter2#x@cache', /the form/],
      ['redis://cache?family=5', /"family" must be 0 or 4 or 6/],
      ['redis://cache?family=4&family=6', /"family" is repeated/],
    ],
    MAIL_URL: [
      ['smtp://u:hunter2@mail?requiretls=true', /parameter "requiretls" is not supported/],
      ['smtp://u:hunter2@mail?secure=true', /parameter "secure" is not supported/],
      ['smtp://u:hunter2@mail?requireTLS=', /"requireTLS" must be true or false/],
      ['smtp://u:hunter2@mail?requireTLS=1', /"requireTLS" must be true or false/],
      ['smtp://u:hunter2@mail?tls.rejectUnauthorized=no', /"tls.rejectUnauthorized" must be/],
      ['smtp://u:hunter2@mail?requireTLS=true&ignoreTLS=true', /must not both be true/],
      ['smtp://u:hunter2@mail/inbox', /must not have a path/],
      ['smtp://u:12/hunter2@mail', /must not have a path/],
      ['smtp://u:hunter2%@mail', /percent sign/],
      ['smtp:mail', /the form/],
      ['smtp://mail?hunter2@x=y', /one of its parameters is not supported/],
    ],
  }
  for (const [name, cases] of Object.entries(bad))
    for (const [url, reason] of cases) {
      const settings = { DATABASE_URL: 'postgres://db', MAIL_FROM: 'a@example.com', [name]: url }
      const found = problems(settings)
      t.match(found, [reason], url)
      t.ok(found[0]?.startsWith(`${name} must be `), url)
      t.notMatch(found[0], /hunter2/)
    }
  const good = {
    REDIS_URL: ['redis://cache', 'REDISS://u:p%40@cache:1/15', 'redis://:p@[::1]/', 'redis://cache?family=6'],
    MAIL_URL: [
      ...['smtp://mail', 'SMTPS://u:p%2F@mail:465', 'smtp://[::1]:25?ignoreTLS=true'],
      'smtp://mail?requireTLS=false&name=app.example.com&tls.servername=mail.example.com',
    ],
  }
  for (const [name, values] of Object.entries(good))
    for (const value of values)
      t.same(problems({ MAIL_FROM: 'a@example.com', [name]: value }), [], `${name}=${value}`)
})

test('a URL that another program could read differently is refused', async (t) => {
  const provider = { AUTH_ISSUER: 'i', AUTH_AUDIENCE: 'a' }
  const names = ['PUBLIC_URL', 'APP_URL', 'AUTH_JWKS_URL', 'OTEL_EXPORTER_OTLP_ENDPOINT']
  const check = (name: string, url: string) =>
    problems({ ...(name === 'AUTH_JWKS_URL' && provider), [name]: url })
  for (const name of names) {
    for (const url of 'https:e.com|https:///e.com|https:\\\\e.com| https://e.com|https://e .com'.split('|'))
      t.match(check(name, url), [new RegExp(`^${name} must be `)], `${name}=${url}`)
    t.match(check(name, 'https://u:hunter2@e.com/x'), [/^(?!.*hunter2).*credentials/], name)
    t.same(check(name, 'HTTPS://e.com:8443/x'), [], name)
  }
  for (const url of ['http://collector:4318?x=y', 'http://collector:4318/#x'])
    t.equal(check('OTEL_EXPORTER_OTLP_ENDPOINT', url).length, 1, url)
  for (const url of ['http://collector:4318', 'http://collector:4318/'])
    t.same(check('OTEL_EXPORTER_OTLP_ENDPOINT', url), [], url)
  for (const url of ['https://e.com/?tab=account', 'https://e.com/#/account'])
    t.same(check('APP_URL', url), [])
})

test('REDISS:// and SMTPS:// in capitals use TLS too', async (t) => {
  t.ok(parseRedisUrl('REDISS://cache').tls)
  t.notOk('tls' in parseRedisUrl('redis://cache'))
  t.match(parseSmtpUrl('SMTPS://mail'), { secure: true, tls: { rejectUnauthorized: true } })
  t.match(parseSmtpUrl('smtp://mail'), { secure: false, requireTLS: true })
  t.match(parseSmtpUrl('smtp://mail?ignoreTLS=false'), { requireTLS: true })
  t.match(parseSmtpUrl('smtp://localhost'), { requireTLS: false })
})

test('production requires a secret and encryption, and says how to try without them', async (t) => {
  t.match(problems({ NODE_ENV: 'production' }), [
    /^APP_SECRET is required in production/,
    /^TLS_KEY .*INSECURE_HTTP=true/,
  ])
  t.same(problems(production), [])
  t.same(problems({ ...production, INSECURE_HTTP: '', TRUST_PROXY: '1' }), [])
  t.match(problems({ ...production, INSECURE_HTTP: 'yes' }), [/^INSECURE_HTTP must be/])
  t.match(problems({ ...production, LOG_SQL: 'true' }), [/^LOG_SQL must be false in production/])
})

test('production accepts https only for the key set of an identity provider', async (t) => {
  const provider = { AUTH_ISSUER: 'i', AUTH_AUDIENCE: 'a', AUTH_JWKS_URL: 'HTTP://127.0.0.1/jwks' }
  t.match(problems({ ...production, ...provider }), [/^AUTH_JWKS_URL must be an https:\/\/ URL/])
  t.same(problems(provider), [], 'elsewhere http is accepted')
  t.same(problems({ ...production, ...provider, AUTH_JWKS_URL: 'HTTPS://id.example.com/jwks' }), [])
})

const readTrialSecrets = (file: string) => {
  const text = readFileSync(new URL(`../../../../${file}`, import.meta.url), 'utf8')
  return new Set([...text.matchAll(/:-(TRIAL[^}]*)\}/g)].map(([, secret = '']) => secret))
}

test('production rejects the secrets of compose.yaml, except in the trial of compose.yaml', async (t) => {
  const trial = readTrialSecrets('compose.yaml')
  t.equal(trial.size, 3)
  const { INSECURE_HTTP, ...served } = { ...production, TRUST_PROXY: '1' }
  for (const secret of trial) {
    const url = `postgres://api:${secret}@database:5432/api`
    for (const [name, settings] of [
      ['APP_SECRET', { APP_SECRET: secret.padEnd(32, '!') }],
      ['ADMIN_API_KEY', { ADMIN_API_KEY: secret.padEnd(32, '!') }],
      ['ADMIN_PASSWORD', { ADMIN_PASSWORD: secret }],
      ['METRICS_TOKEN', { METRICS_TOKEN: secret.padEnd(16, '!') }],
      ['DATABASE_URL', { DATABASE_URL: url }],
      ['DATABASE_REPLICA_URLS', { DATABASE_URL: 'postgres://database/api', DATABASE_REPLICA_URLS: url }],
    ] as const) {
      const found = problems({ ...served, ...settings })
      t.match(found, [`${name} contains a secret of compose.yaml`])
      t.notMatch(found[0], secret)
      t.same(problems({ ...production, ...settings }), [], 'INSECURE_HTTP=true without a proxy is the trial')
      t.equal(
        problems({ ...production, ...settings, TRUST_PROXY: '1' }).length,
        1,
        'behind a proxy it is none',
      )
      t.same(problems(settings), [], 'accepted outside production')
    }
  }
  const citus = readTrialSecrets('compose.citus.yaml')
  t.equal(citus.size, 5)
  for (const secret of citus) {
    const settings = { ...production, DATABASE_URL: `postgres://api:${secret}@coordinator:5432/api` }
    t.same(problems({ ...settings, DATABASE_SCHEMA: 'tenant_a' }), [], 'accepted in the trial')
    t.match(problems({ ...settings, TRUST_PROXY: '1' }), [/^DATABASE_URL contains a secret of compose.yaml/])
  }
})

test('settings that belong together are required together', async (t) => {
  t.match(problems({ AUTH_ISSUER: 'i' }), [/^AUTH_JWKS_URL is missing/, /^AUTH_AUDIENCE is missing/])
  t.match(problems({ DATABASE_REPLICA_URLS: 'postgres://b' }), [
    /^DATABASE_REPLICA_URLS requires DATABASE_URL/,
  ])
  t.match(problems({ METRICS_PORT: '3000' }), [/^METRICS_PORT must differ from PORT/])
  const workers = { WORKERS: '2', DATABASE_URL: 'postgres://a' }
  t.same(problems(workers), [])
  const replicated = { ...workers, DATABASE_REPLICA_URLS: 'postgres://b' }
  t.match(problems(replicated), [/^WORKERS requires REDIS_URL above 1 with DATABASE_REPLICA_URLS/])
  t.same(problems({ ...replicated, REDIS_URL: 'redis://c' }), [])
})

test('a key and a certificate are read from PEM or files and must match', async (t) => {
  const { TLS_KEY, TLS_CERT } = createCertificate(testFolder(t))
  const pem = (file: string) => readFileSync(file, 'utf8').replaceAll('\n', '\\n')
  t.same(problems({ TLS_KEY, TLS_CERT }), [])
  t.same(problems({ TLS_KEY: pem(TLS_KEY), TLS_CERT: pem(TLS_CERT) }), [], 'with its newlines written out')
  const other = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' })
  t.match(problems({ TLS_KEY: String(other), TLS_CERT }), [/^TLS_CERT and TLS_KEY/])
  t.match(problems({ TLS_CERT }), [/^TLS_KEY is missing/])
})

test('signing keys are read as PEM or JWK, one or several', async (t) => {
  const [one, two] = [generateKeyPairSync('ed25519').privateKey, generateKeyPairSync('ed25519').privateKey]
  const pem = [one, two].map((key) => key.export({ type: 'pkcs8', format: 'pem' })).join('')
  const jwk = [one, two].map((key) => key.export({ format: 'jwk' }))
  for (const text of [pem, pem.replaceAll('\n', '\\n'), JSON.stringify(jwk), JSON.stringify({ keys: jwk })]) {
    t.equal(parsePrivateKeys(text).length, 2)
    t.ok(parsePrivateKeys(text)[0]?.equals(one), 'the first stays the first')
  }
  t.same(problems({ JWT_PRIVATE_KEY: JSON.stringify(jwk[0]) }), [])
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })
  const open = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })
  for (const text of ['{}', '[]', '{"keys":[]}', 'x', JSON.stringify(rsa), JSON.stringify(open)]) {
    t.match(problems({ JWT_PRIVATE_KEY: text }), [/^JWT_PRIVATE_KEY must be/])
  }
})
