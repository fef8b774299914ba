/** Lists the targets, the reference first. */
import { feathers } from './feathers.ts'
import { platformatic } from './platformatic.ts'
import { nodeHttp, reference } from './reference.ts'
import { baselineWithKey, serviceWithKey, serviceWithToken } from './resource-api.ts'
import type { Target } from './target.ts'

export const targets: readonly Target[] = [
  reference,
  nodeHttp,
  serviceWithKey,
  serviceWithToken,
  // The baseline is useful only if it is another checkout.
  ...(process.env.BENCH_BASELINE ? [baselineWithKey] : []),
  platformatic,
  feathers,
]

export const targetNames = targets.map(({ name }) => name)

/** The names of the targets that have goals. */
export const serviceTargets: readonly string[] = [serviceWithKey.name, serviceWithToken.name]
export const peerTargets: readonly string[] = [platformatic.name, feathers.name]
