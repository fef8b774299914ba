/** Compiles wrong definitions, and compares the mistakes that stop the start with those expected. */
import t from 'tap'
import { users } from '../../drizzle/user-tables.ts'
import { compileResources } from '../../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { resources } from '../../src/app.ts'
import { ordersResource as fixtureOrders } from '../fixtures/resources/orders.ts'
import { productsResource as fixtureProducts } from '../fixtures/resources/products.ts'

export type Definition = Partial<ResourceDefinition>

/** Without what depends on the filters and the search that the changes of the tests replace. */
const conditions = { negations: [], nullChecks: [], prefixes: [], unindexed: [] } satisfies Definition
export const user = { to: users, local: 'user_id', foreign: 'id', many: false }
export const ordersResource: ResourceDefinition = { ...fixtureOrders, ...conditions, relations: { user } }
export const productsResource: ResourceDefinition = { ...fixtureProducts, ...conditions }

export type Cases = [change: Definition, ...mistakes: (string | RegExp)[]][]

/** Returns the mistakes that stop the start. */
export function findMistakes(definitions: readonly ResourceDefinition[], versions = [1, 2]): string[] {
  try {
    compileResources(definitions, versions)
    return []
  } catch (error) {
    if (!(error instanceof Error)) throw error
    return error.message.split('\n')
  }
}

/**
 * Tests that each change of a definition leads to the mistakes that begin as named, after its name, and to no others.
 * @param all the definitions, of which the changed one takes the place of its former self
 */
export const testMistakes = (
  title: string,
  cases: Cases,
  definition: ResourceDefinition = ordersResource,
  all: readonly ResourceDefinition[] = resources,
) =>
  t.test(title, async (t) => {
    for (const [change, ...mistakes] of cases) {
      const changed: ResourceDefinition = { ...definition, ...change }
      const found = findMistakes([...all.filter(({ name }) => name !== definition.name), changed])
      t.equal(found.length, mistakes.length, found.join('\n'))
      for (const [i, mistake] of mistakes.entries()) {
        const text = found[i]?.replace(`${changed.name}: `, '') ?? ''
        t.ok(
          typeof mistake === 'string' ? text.startsWith(mistake) : mistake.test(text),
          `${text} is ${mistake}`,
        )
      }
    }
  })
