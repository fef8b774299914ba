/** Lists the targets, the references first. */
import { feathers } from './feathers.ts'
import { platformatic } from './platformatic.ts'
import { equalReference, plainReference } from './reference.ts'
import { baselineWithKey, serviceWithKey, serviceWithoutEvents, serviceWithToken } from './resource-api.ts'
import type { Target } from './target.ts'

export const targets: readonly Target[] = [
  plainReference,
  equalReference,
  serviceWithKey,
  serviceWithToken,
  serviceWithoutEvents,
  // The baseline is useful only if it is another checkout.
  ...(process.env.BENCH_BASELINE ? [baselineWithKey] : []),
  platformatic,
  feathers,
]

export const targetNames = targets.map(({ name }) => name)
