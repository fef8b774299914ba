/** The targets by name, the reference first. */
import { feathers } from './feathers.ts'
import { baselineWithKey, oursWithKey, oursWithToken } from './ours.ts'
import { platformatic } from './platformatic.ts'
import { nodeHttp, reference } from './reference.ts'
import type { Target } from './target.ts'

export const targets: readonly Target[] = [
  reference,
  nodeHttp,
  oursWithKey,
  oursWithToken,
  // A second copy of this service says nothing unless it is another one.
  ...(process.env.BENCH_BASELINE ? [baselineWithKey] : []),
  platformatic,
  feathers,
]

export const targetNames = targets.map(({ name }) => name)

/** Those that the goals are about. */
export const ours: readonly string[] = [oursWithKey.name, oursWithToken.name]
export const peers: readonly string[] = [platformatic.name, feathers.name]
