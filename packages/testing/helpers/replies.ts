/** Reads replies, and checks refusals. */
import type { Test } from 'tap'
import type { Client } from '../src/client.ts'
import { getViolations } from '../src/replies.ts'

export * from '../src/replies.ts'

/** Checks that each path is rejected with 400 and its violations. */
export async function checkRefusals(t: Test, client: Client, refusals: Record<string, string[]>) {
  for (const [path, violations] of Object.entries(refusals)) {
    const reply = await client.get(path)
    t.equal(reply.status, 400, path.slice(0, 80))
    t.equal(reply.body.error.code, 'VALIDATION_ERROR')
    t.same(getViolations(reply), violations, path.slice(0, 80))
  }
}
