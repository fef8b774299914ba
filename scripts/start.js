/**
 * `npm start`: builds the server if the sources have changed, and runs it in this process. Ends it after the end of npm,
 * which passes a signal on only to the shell between them: the server would go on, with the lock on its data.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const CHECK_INTERVAL_MS = 500

/** Returns the parent of a shell on Linux, where that of npm waits for its command instead of becoming it. */
function readParent(pid) {
  try {
    return /\(\w*sh\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1]
  } catch {
    return undefined
  }
}

const parent = process.ppid
const npm = readParent(parent)
// Started in another way, the process may outlive its parent.
const isUnderNpm = process.env.npm_lifecycle_event === 'start'
const hasLostNpm = () => isUnderNpm && (process.ppid !== parent || readParent(parent) !== npm)

// As the server does, which reads it again: with NODE_ENV=production, the build is another one.
if (existsSync('.env')) process.loadEnvFile()
const { build } = await import('./build.js')
await build({ isWhole: process.env.NODE_ENV === 'production' })
if (hasLostNpm()) process.exit(1)
// What the worker processes run.
process.argv[1] = fileURLToPath(new URL('../dist/src/server.js', import.meta.url))
await import('../dist/src/server.js')

const timer = setInterval(() => {
  if (!hasLostNpm()) return
  clearInterval(timer)
  console.error('npm has ended: the server ends too')
  process.kill(process.pid, 'SIGTERM')
}, CHECK_INTERVAL_MS).unref()
// A second signal would end the process before its requests are finished.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => clearInterval(timer))
