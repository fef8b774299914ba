/** Requests as bytes on a socket, for what no client would send. */
import { connect } from 'node:net'

export interface RawReply {
  status: number
  headers: Record<string, string>
  text: string
}

export interface RawOptions {
  /** Half-closes after sending, as a client does that has nothing more to say. */
  end?: boolean
  /** Sent after the first reply has begun, on the same connection. */
  followedBy?: string | Buffer
  /** Milliseconds after which what came until then is the answer. */
  timeoutMs?: number
}

/** The replies in what a server sent: by Content-Length, by chunks, or until it closed. */
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

/** Sends bytes on a new connection, and gives all that came back until the server closed it or patience ended. */
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
    // A reset after the answer is the server's right, where the client went on writing.
    socket.on('error', () => {})
    socket.on('close', () => {
      closed = true
      finish()
    })
  })
}
