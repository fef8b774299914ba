/** The steps of the demo data, one line each. Orders are in `order-batches.ts`, since they have links and numbers. */
import { postsStep } from './posts.ts'
import { productsStep } from './products.ts'
import type { SeedStep } from './seed-step.ts'
import { profilesStep, usersStep } from './users.ts'

export const steps: readonly SeedStep[] = [
  // In the order of the summary, one line each.
  usersStep,
  profilesStep,
  postsStep,
  productsStep,
]
