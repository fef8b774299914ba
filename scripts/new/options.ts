/** Reads the command line of `npm run new`. */
import { parseArgs } from 'node:util'
import { UsageError } from '../../src/cli/usage-error.ts'
import type { Answers } from './resource-plan.ts'

export const HELP = `Adds a resource: schema, table, migration, definition, test, the entry in src/own.ts, the OpenAPI
documents and the TypeScript client.

  npm run new -- NAME [options]

NAME is a plural noun in kebab-case. On a terminal, the command asks for what the options do not say.

  --fields LIST       NAME:TYPE, separated by commas. After the type: ? nullable, ! cannot be changed, =VALUE default
                        text(1..200)  multiline(1..5000)    a text with the bounds of its length
                        integer(0..10)  money(0..100000)    a number with its bounds; money adds a currency
                        enum(small|large)  boolean  date  timestamp  url  currency
                        ref(products)  ref(products, cascade)   the id of another resource; the name ends with _id.
                                              cascade: deleted together with it; otherwise it cannot be deleted
  --parent RESOURCE   the path is below this resource: /users/{user_id}/posts
  --owner COLUMN      the user whose row it is, by default the caller, for example user_id. Members create, read and
                      change their own rows
  --states LIST       values of the field status and their transitions, the initial one first, for example
                      "pending>published>hidden" or "draft>published,archived; published>draft"
  --states-by WHO     staff (default): only managers and admins change the status; owner: the owner too
  --public LIST       what members may read besides their own rows: states, all, or none (default)
  --unique LIST       fields whose values no two rows share together, for example user_id,product_id
  --filters LIST      fields to filter by. Default: status, owner, references, enums, booleans
  --sorts LIST        fields to sort by, besides created_at and updated_at. Default: numbers, dates and timestamps,
                      which also have limits, such as rating_min
  --search LIST       fields that search looks in. Default: texts of at most 5,000 characters
  --operations LIST   operations on one resource besides the six, such as refunds: POST /orders/{id}/refunds. Each is
                      one function of the definition
  --singular NAME     in PascalCase, for irregular nouns: Person
  --description TEXT  one line for the documents
  --dry-run           prints the files and writes nothing
  --help

Example:

  npm run new -- reviews --owner user_id --unique user_id,product_id \\
    --fields "product_id:ref(products)!, rating:integer(1..5), body:multiline(1..2000)" \\
    --states "pending>published>hidden" --public published
`

export interface CommandLine {
  /** The answers that the command line gives; undefined with --help. */
  answers: Answers | undefined
  isDryRun: boolean
}

const text = { type: 'string' } as const

/** @throws UsageError */
export function readCommandLine(args: string[]): CommandLine {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        fields: text,
        parent: text,
        owner: text,
        states: text,
        'states-by': text,
        public: text,
        unique: text,
        filters: text,
        sorts: text,
        search: text,
        operations: text,
        singular: text,
        description: text,
        'dry-run': { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    })
    const { 'dry-run': isDryRun = false, help: isHelp, ...flags } = values
    if (isHelp) return { answers: undefined, isDryRun }
    const [name, another] = positionals
    if (name === undefined || another !== undefined) {
      throw new UsageError('Name one resource: npm run new -- reviews. See npm run new -- --help')
    }
    return { answers: { ...flags, name }, isDryRun }
  } catch (error) {
    // parseArgs throws TypeError for unknown options and missing values.
    if (error instanceof TypeError) throw new UsageError(`${error.message}. See npm run new -- --help`)
    throw error
  }
}
