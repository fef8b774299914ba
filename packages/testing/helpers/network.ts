/** Servers and raw requests on the loopback interface, and a certificate for them. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { listen } from '../src/listen.ts'

export { listen }

/** Returns a port that was free a moment ago, for a process that cannot choose one itself. */
export async function findFreePort(): Promise<number> {
  const server = createServer()
  const port = await listen(server)
  server.close()
  await once(server, 'close')
  return port
}

export interface RawReply {
  status: number
  headers: Record<string, string>
  text: string
}

export interface RawOptions {
  /** Half-closes the connection after sending. */
  end?: boolean
  /** Sent on the same connection after the first bytes of a reply. */
  followedBy?: string | Buffer
  /** Milliseconds after which the connection is closed. */
  timeoutMs?: number
}

/** Returns the replies in the bytes that a server sent, which end by Content-Length. */
export function parseReplies(sent: Buffer): RawReply[] {
  const replies: RawReply[] = []
  let rest = sent
  while (rest.length > 0) {
    const end = rest.indexOf('\r\n\r\n')
    if (end === -1) throw new Error(`No head in: ${rest.toString('latin1').slice(0, 200)}`)
    const [line = '', ...fields] = rest.toString('latin1', 0, end).split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(line)?.[1])
    if (!status) throw new Error(`No status in: ${line.slice(0, 200)}`)
    const headers = Object.fromEntries(
      fields.map((field) => {
        const colon = field.indexOf(':')
        return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()]
      }),
    )
    const length = Number(headers['content-length'] ?? 0)
    const body = rest.subarray(end + 4, end + 4 + length)
    if (status >= 200) replies.push({ status, headers, text: body.toString('utf8') })
    rest = rest.subarray(end + 4 + length)
  }
  return replies
}

/** Sends bytes on a new connection and returns the replies until the server closes it or the time is over. */
export function sendRaw(
  port: number,
  bytes: string | Buffer,
  { end = false, followedBy, timeoutMs = 20_000 }: RawOptions = {},
): Promise<{ replies: RawReply[]; closed: boolean; bytes: Buffer }> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const socket = connect(port, '127.0.0.1')
    socket.setNoDelay()
    let closed = false
    const finish = () => {
      clearTimeout(timer)
      socket.destroy()
      const all = Buffer.concat(chunks)
      try {
        resolve({ replies: parseReplies(all), closed, bytes: all })
      } catch (error) {
        reject(error)
      }
    }
    const timer = setTimeout(finish, timeoutMs)
    socket.on('connect', () => (end ? socket.end(bytes) : socket.write(bytes)))
    socket.on('data', (chunk) => {
      if (chunks.length === 0 && followedBy !== undefined) socket.write(followedBy)
      chunks.push(chunk)
    })
    // The server may reset the connection after its reply while the client still writes.
    socket.on('error', () => {})
    socket.on('close', () => {
      closed = true
      finish()
    })
  })
}

/** Makes a key and a certificate for `localhost` in a folder and returns their paths, as the settings name them. */
export function createCertificate(folder: string): { TLS_KEY: string; TLS_CERT: string } {
  const [TLS_KEY, TLS_CERT] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const request = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost'.split(' ')
  const subject = ['-addext', 'subjectAltName=DNS:localhost']
  execFileSync('openssl', ['req', ...request, ...subject, '-keyout', TLS_KEY, '-out', TLS_CERT], {
    stdio: 'ignore',
  })
  return { TLS_KEY, TLS_CERT }
}
