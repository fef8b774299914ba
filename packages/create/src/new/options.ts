/** Reads the command line of `resource-api new`. */
import { parseArgs } from 'node:util'
import type { Answers, Option } from './resource-plan.ts'

export const HELP = `Adds a resource: schema, table, migration, plugin, test, and the entry in src/own.ts.

  npx resource-api new NAME [options]

NAME is a plural noun in kebab-case.

  --fields LIST       NAME:TYPE, separated by commas. After the type: ? nullable, ! cannot be changed, =VALUE default, and
                      a word: readonly (only code sets the column), computed (code computes it, without a column)
                        text(1..200)  multiline(1..5000)    a text with the bounds of its length
                        texts(0..20)                        a list of texts with the bounds of their number
                        integer(0..10)  money(0..100000)    a number with its bounds; money adds a currency
                        decimal(10,2)                       an exact number of 10 digits, 2 of them decimals; a text in JSON
                        date  time  timestamp               a day, a time of day, a moment
                        enum(small|large)  boolean  email  url  uuid  currency
                        ref(products)  ref(products, cascade)   the id of another resource; the name ends with _id.
                                              cascade: deleted together with it; otherwise it cannot be deleted
                      If none can be changed, the resource has no PUT and PATCH
  --from TABLE        reads the fields from a table that exists in the database of the settings (DATABASE_URL), with its
                      keys, checks and references, instead of --fields. The migration adds what a resource needs to it.
                      A view becomes a resource that is only read, without a migration. First create it in one (npm
                      run migrations -- --custom --name NAME), and apply that (npx resource-api migrate). PostgreSQL
                      takes every column of a view for nullable and knows no bounds, enums and references: --fields
                      says so of those that it names, such as 'total:integer(0..1000000), user_id:ref(users)'.
                      Without a column "search" of a table, --search is not possible
  --key COLUMN        of a view: the uuid that is the id of a row, unique and never null. Default: id
  --parent RESOURCE   the path is below this resource: /users/{user_id}/posts
  --owner COLUMN      the user whose row it is, for example user_id. user_id:writes (default): members create, read and
                      change their own rows. user_id:reads: they only read them, and the staff writes (admins, and the
                      roles of "staff" of src/application.ts).
                      user_id:reads(status=issued,paid): they read those that meet a condition, as in --visible.
                      Also paths of relations, separated by semicolons: 'organization.memberships.user_id:reads;
                      organization.memberships.user_id:writes(role=owner)'. Members read the rows that are related to a
                      membership of theirs, and write them if it has the role
  --on-delete WHAT    of the owner and the parent: restrict (default) keeps them from being deleted while they have rows;
                      cascade deletes the rows with them
  --states LIST       values of the field status and their transitions, the initial one first, final ones with "!", for
                      example 'pending>published>hidden!' or 'draft>published,archived!; published>draft'
  --states-by WHO     staff (default): only the staff changes the status; owner: the owner too
  --visible WHICH     which rows of all users members may read: all, none (default), or conditions on the status,
                      enums and booleans, for example 'status=issued,paid; is_open=true'
  --restrict FIELDS   fields that not every role reads or writes: FIELD:read=ROLES:write=ROLES, separated by semicolons,
                      for example 'cost:read=admin,manager:write=admin; note:read=admin'. For other roles the field does
                      not exist, or is read-only. Without write, those that read it write it
  --unique LIST       fields whose values no two rows share together, for example user_id,product_id
  --filters LIST      fields to filter by. Default: owner, status, references, enums, booleans, emails, uuids
  --sorts LIST        fields to sort by, besides created_at and updated_at. Default: numbers, dates and times, which also
                      have limits, such as rating_min
  --search LIST       fields that search looks in. Default: emails, and texts of at most 5,000 characters
  --actions LIST      operations on one resource besides the six, such as refunds: POST /orders/{id}/refunds, or
                      confirm (a verb, without s). Each is one route
  --aggregates LIST   fields of GET /NAME/aggregates: sums and averages of numbers, least and greatest values of numbers,
                      dates and timestamps, counts by enum, boolean, currency, reference or period. Also created_at and
                      updated_at; for example total,status,created_at
  --restore           the staff restores rows that were deleted: POST /NAME/{id}/restores
  --singular NAME     in PascalCase, for irregular nouns: Person
  --description TEXT  one line for the documents
  --dry-run           prints the files and writes nothing
  --help

Quote with ' rather than ": a shell replaces "!" between double quotes. Example:

  npx resource-api new reviews --owner user_id --unique user_id,product_id \\
    --fields 'product_id:ref(products)!, rating:integer(1..5), body:multiline(1..2000)' \\
    --states 'pending>published>hidden!' --visible status=published
`

export interface CommandLine {
  isHelp: boolean
  isDryRun: boolean
  answers: Answers
  /** The mistakes of the command line itself. */
  problems: string[]
}

const OPTIONS: readonly Option[] = [
  ...([
    'fields',
    'from',
    'key',
    'parent',
    'owner',
    'on-delete',
    'states',
    'states-by',
    'visible',
    'restrict',
  ] as const),
  ...(['unique', 'filters', 'sorts', 'search', 'actions', 'aggregates', 'singular', 'description'] as const),
]

export function readCommandLine(args: string[]): CommandLine {
  const text = { type: 'string' } as const
  const isSwitch = { type: 'boolean' } as const
  const switches = { 'dry-run': isSwitch, restore: isSwitch, help: { ...isSwitch, short: 'h' } } as const
  const { tokens } = parseArgs({
    args,
    // Unknown options are reported together with the other mistakes.
    ...{ strict: false, allowPositionals: true, tokens: true },
    options: { ...switches, ...Object.fromEntries(OPTIONS.map((option) => [option, text])) },
  })
  const problems: string[] = []
  const given = new Map<string, string>()
  const names: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') names.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value, inlineValue = false } = token
    const hasNoValue = name in switches
    if (given.has(name)) problems.push(`${rawName} stands twice`)
    if (!hasNoValue && !OPTIONS.some((option) => option === name))
      problems.push(`There is no option ${rawName}. See npx resource-api new --help`)
    else if (hasNoValue && value !== undefined) problems.push(`${rawName} has no value`)
    else if (!hasNoValue && (value === undefined || (!inlineValue && value.startsWith('--'))))
      problems.push(`${rawName} needs a value`)
    else given.set(name, value ?? '')
  }
  const [name = '', ...others] = names
  const isHelp = given.has('help')
  if (!isHelp && (name === '' || others.length > 0))
    problems.push('Name one resource: npx resource-api new reviews. See npx resource-api new --help')
  const chosen = OPTIONS.flatMap((option) => (given.has(option) ? [[option, given.get(option)]] : []))
  return {
    isHelp,
    isDryRun: given.has('dry-run'),
    answers: { name, isRestorable: given.has('restore'), ...Object.fromEntries(chosen) },
    problems,
  }
}
