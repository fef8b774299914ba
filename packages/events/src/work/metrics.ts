/** The metrics of the work of the project. */
import type { AddMetric } from '@resource-api/http/internal'
import { toWorkKind } from '@resource-api/resources/internal'
import { getWaitSeconds, type WorkState } from '@resource-api/work'
import type { FastifyInstance } from 'fastify'

export function addWorkMetrics(
  add: AddMetric,
  listed: readonly { name: string }[],
  work: FastifyInstance['work'],
): void {
  const addNamed = (name: string, help: string, read: (state: WorkState | undefined) => number) =>
    add(
      name,
      `${help}; -1 if the database does not answer.`,
      () => listed.map((each) => [each.name, read(work.getState(toWorkKind(each.name)))] as const),
      { label: 'name' },
    )
  addNamed('work_waiting', 'Work of the project that waits to be done', (state) => state?.waiting ?? -1)
  addNamed(
    'work_failed',
    'Work of the project that has failed for good, for 30 days',
    (state) => state?.failed ?? -1,
  )
  addNamed(
    'work_longest_wait_seconds',
    'How long the oldest work that waits was enqueued ago; 0 if none waits',
    getWaitSeconds,
  )
}
