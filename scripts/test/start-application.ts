/** Starts an adopter's application as its README says. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'

/** Runs `npm start`. @throws Error with its output if the server does not start */
export async function startApplication(t: Test, cwd: string, env: NodeJS.ProcessEnv) {
  const child = spawn('npm', ['start'], { cwd, env: { ...env, PORT: '0' }, detached: true })
  const ended = once(child, 'exit')
  const signal = (name: NodeJS.Signals) => child.exitCode ?? process.kill(-(child.pid ?? 0), name)
  t.teardown(() => signal('SIGKILL'))
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  const output: string[] = []
  let url: string | undefined
  for await (const line of createInterface(child.stdout)) {
    output.push(line)
    url = /Ready at (\S+),/.exec(line)?.[1]
    if (url !== undefined) break
  }
  if (url === undefined) throw new Error(`The server has not started: ${errors}`)
  child.stdout.resume()
  return {
    url,
    /** What it has printed up to its address. */
    output: output.join('\n'),
    /** Sends a request, with the key of the settings. */
    async send(method: string, path: string, body?: object) {
      const headers = {
        ...(env.ADMIN_API_KEY !== undefined && { 'x-api-key': env.ADMIN_API_KEY }),
        ...(body && { 'content-type': 'application/json' }),
      }
      const response = await fetch(url + path, { method, headers, body: body ? JSON.stringify(body) : null })
      return { status: response.status, text: await response.text() }
    },
    async stop() {
      signal('SIGTERM')
      await ended
    },
  }
}
