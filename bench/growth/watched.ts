/** The app's database, watched: which statements a request runs, with which values. */
import type { Database, Param } from '../../drizzle/client/index.ts'

export interface Asked {
  text: string
  params: readonly Param[]
  /** Whether it is planned for its values each time. */
  custom: boolean
}

/** Credentials are looked up now and then, whatever is asked. */
const ASIDE = /api_keys|role = 'admin'/

/**
 * Where a page's cursor goes: nothing else of it is cast. What is included has its parents' ids in an array. With sorts
 * of mixed directions a value stands in several places.
 */
function moved(asked: Asked, position: readonly string[] | undefined): Asked {
  const { text, params } = asked
  if (!position || text.includes('unnest(')) return asked
  const places = new Set([...text.matchAll(/\$(\d+)::/g)].map(([, place]) => Number(place) - 1))
  if (places.size === 0) return asked
  const before = [...new Set([...places].map((place) => params[place]))]
  if (before.length !== position.length) throw new Error(`Two values of the cursor are alike: ${before}`)
  const after = new Map(before.map((value, i) => [value, position[i] ?? null]))
  return { ...asked, params: params.map((param, i) => (places.has(i) ? (after.get(param) ?? null) : param)) }
}

export function watch(database: Database) {
  let position: readonly string[] | undefined
  let asked: Asked[] = []
  const watched: Database = {
    ...database,
    run(text, params = [], options = {}) {
      const { customPlan: custom = false } = options
      const statement = moved({ text, params, custom }, position)
      if (!ASIDE.test(text)) asked.push(statement)
      return database.run(text, statement.params, options)
    },
  }
  return {
    watched,
    /**
     * Whoever reads on from a cursor begins at this position instead of the cursor's own. A cursor is the server's
     * secret, and to walk to the middle of millions takes too long.
     */
    moveTo(to: readonly string[] | undefined) {
      position = to
    },
    /** What was asked since the last time. */
    take(): Asked[] {
      const taken = asked
      asked = []
      return taken
    },
  }
}

export type Watch = ReturnType<typeof watch>
