/** A server that implements the Redis commands of the rate limits, and can fail like a real one. */
import { createServer, type Server, type Socket } from 'node:net'
import type { Owner } from '../../../testing/helpers/database.ts'
import { listen } from '../../../testing/helpers/network.ts'

/** Returns the complete commands of a text such as `*2\r\n$4\r\nINFO\r\n...`, and the rest. */
function parse(text: string): { commands: string[][]; rest: string } {
  const commands: string[][] = []
  let rest = text
  for (;;) {
    const lines = rest.split('\r\n')
    const size = 1 + 2 * Number(/^\*(\d+)$/.exec(lines[0] ?? '')?.[1] ?? Number.NaN)
    // The last element is the text after the last line break.
    if (!(lines.length > size)) return { commands, rest }
    commands.push(lines.slice(1, size).filter((_, i) => i % 2 === 1))
    rest = lines.slice(size).join('\r\n')
  }
}

const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`

/** Returns the reply in which every window has just begun. */
function counted(keys: number) {
  const each = Array.from({ length: keys }, () => ':1\r\n:60000\r\n').join('')
  return `*${1 + 2 * keys}\r\n:0\r\n${each}`
}

export async function startFakeRedis(t: Owner) {
  const state = {
    /** The error that scripts return, such as `READONLY You cannot write`. */
    error: '',
    /** The error that every command returns. */
    refusal: '',
    /** Discards everything, as an unreachable host does. */
    silent: false,
    /** Milliseconds before each reply. */
    delay: 0,
    scripts: 0,
    /** Number of received chunks. */
    packets: 0,
  }
  const sockets = new Set<Socket>()

  const answer = (command: readonly string[]): string => {
    const [name = '', , keys] = command
    if (state.refusal) return `-${state.refusal}\r\n`
    switch (name.toUpperCase()) {
      case 'HELLO':
        return `%1\r\n${bulk('proto')}:3\r\n`
      case 'INFO':
        return bulk('redis_version:7.0.15\r\nloading:0')
      case 'SELECT':
        return Number(command[1]) < 16 ? '+OK\r\n' : '-ERR DB index is out of range\r\n'
      case 'SCRIPT':
        return bulk('sha')
      case 'EVALSHA':
        state.scripts++
        return state.error ? `-${state.error}\r\n` : counted(Number(keys))
      default:
        return '+OK\r\n'
    }
  }

  const accept = (socket: Socket) => {
    sockets.add(socket)
    let pending = ''
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    socket.on('data', (data) => {
      if (state.silent) return
      state.packets++
      const { commands, rest } = parse(pending + data.toString('latin1'))
      pending = rest
      const said = commands.map(answer).join('')
      if (state.delay > 0) setTimeout(() => socket.write(said), state.delay)
      else socket.write(said)
    })
  }

  let server: Server | undefined
  const start = (port?: number) => {
    server = createServer(accept)
    return listen(server, port)
  }
  const stop = () => {
    server?.close()
    for (const socket of sockets) socket.destroy()
  }
  const port = await start()
  t.teardown(stop)
  return { url: `redis://user:pass-word@127.0.0.1:${port}`, state, stop, start: () => start(port) }
}
