/** Tables of requests with the statuses of their responses. */
import type { Test } from 'tap'
import type { Client } from '../../../testing/helpers/app.ts'

/**
 * Checks each line of a table: `404 /products// DELETE:/nothing` sends a GET and a DELETE, and both have the status.
 * @param headers of each request
 */
export async function checkStatuses(t: Test, client: Client, table: string, headers = {}) {
  for (const line of table.trim().split('\n')) {
    const [status, ...requests] = line.trim().split(/\s+/)
    for (const request of requests) {
      const [, method = 'GET', path = ''] = /^(?:([A-Z]+):)?(.*)$/.exec(request) ?? []
      const reply = await client.call(method, path, { headers })
      t.equal(reply.status, Number(status), request.slice(0, 200))
    }
  }
}
