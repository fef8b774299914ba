/** `npm run bench:accounts`: compares the times of password resets for addresses of users and for others. */
import { once } from 'node:events'
import { SMTPServer } from 'smtp-server'
import { type BenchContext, runCommand } from './command.ts'
import { readOptions } from './options.ts'
import { computeSpread } from './statistics.ts'
import { FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import { createAccountsTarget } from './targets/resource-api.ts'
import { send } from './targets/target.ts'

const WARMUP = 200
/** Of both kinds together. */
const REQUESTS = 400
/** The largest difference of the medians: less than the noise of a network. */
const MAX_DIFFERENCE_MS = 1

/** Starts a mail server that takes every mail, on the port after that of the service. */
async function startMailServer() {
  const port = FIRST_PORT + 1
  let count = 0
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    onData(stream, _, callback) {
      stream.resume().once('end', () => {
        count += 1
        callback()
      })
    },
  })
  server.listen(port, '127.0.0.1')
  await once(server.server, 'listening')
  return {
    url: `smtp://127.0.0.1:${port}`,
    countMails: () => count,
    close: () => new Promise<void>((resolve) => void server.close(resolve)),
  }
}

/** Returns the milliseconds until the response. */
async function measureRequest({ base }: TargetProcess, email: string): Promise<number> {
  const headers = { 'Content-Type': 'application/json' }
  const call = { method: 'POST', path: '/api/v1/password-resets', headers, body: JSON.stringify({ email }) }
  const started = performance.now()
  const { status, text } = await send(base, call)
  const milliseconds = performance.now() - started
  if (status !== 201) throw new Error(`The request was refused: ${text}`)
  return milliseconds
}

/** Sends requests in random order, since the mail of one is sent during the next ones. */
async function measureRequests(target: TargetProcess, known: readonly string[]) {
  const times: Record<'known' | 'unknown', number[]> = { known: [], unknown: [] }
  const requests = known
    .flatMap((email) => [
      { kind: 'known', email, rank: Math.random() } as const,
      { kind: 'unknown', email: `unknown.${email}`, rank: Math.random() } as const,
    ])
    .sort((a, b) => a.rank - b.rank)
  for (const { kind, email } of requests) times[kind].push(await measureRequest(target, email))
  return times
}

const formatSpread = (title: string, times: readonly number[]) => {
  const { median, quartiles } = computeSpread(times)
  return `${title}: median ${median.toFixed(3)} ms, quartiles ${quartiles.map((each) => each.toFixed(3)).join(' and ')}`
}

async function compareAddresses(context: BenchContext): Promise<void> {
  const { sql } = context.database
  const count = WARMUP + REQUESTS / 2
  const rows = await sql`select email from users where status = 'active' order by random() limit ${count}`
  const emails = rows.map(({ email }) => String(email))
  if (emails.length < count) throw new Error(`Only ${emails.length} active users`)
  await sql`truncate work, mail_quotas, account_links`
  const mailServer = await startMailServer()
  try {
    const target = await startTarget(context, createAccountsTarget(mailServer.url), FIRST_PORT, {
      name: 'accounts',
      etags: false,
    })
    await measureRequests(target, emails.slice(0, WARMUP))
    const { known, unknown } = await measureRequests(target, emails.slice(WARMUP))
    const difference = Math.abs(computeSpread(known).median - computeSpread(unknown).median)
    const isWithin = difference < MAX_DIFFERENCE_MS
    console.log(formatSpread('addresses of users', known))
    console.log(formatSpread('other addresses', unknown))
    console.log(
      `difference of the medians: ${difference.toFixed(3)} ms, ${isWithin ? '' : 'NOT '}under ${MAX_DIFFERENCE_MS} ms`,
    )
    console.log(`${mailServer.countMails()} mails were sent during the requests`)
    await target.stop()
  } finally {
    await mailServer.close()
  }
}

await runCommand(
  () => readOptions('bench:accounts', ['pool', 'users', 'node', 'flags'], process.argv.slice(2)),
  compareAddresses,
)
