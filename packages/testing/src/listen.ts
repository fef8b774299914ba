/** Servers that a test starts, such as in the place of another service. */
import { once } from 'node:events'
import type { Server } from 'node:net'

/**
 * Makes a server of any kind listen on the loopback interface.
 * @param port by default a free one
 * @returns the port
 */
export async function listen(server: Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('The server does not listen on TCP')
  return address.port
}
