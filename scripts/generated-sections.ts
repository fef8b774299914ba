/** The parts of Markdown pages that are generated from the definitions and the settings. */

import { readFile, writeFile } from 'node:fs/promises'
import { buildDocumentApp } from '@resource-api/docs/commands'
import { formatAccessTables } from '../packages/docs/src/openapi/access-tables.ts'
import { writeErrorSections } from '../packages/docs/src/openapi/error-codes.ts'
import { settingsTable } from '../packages/http/src/config/describe-settings.ts'
import type { ResourceDefinition } from '../packages/resources/src/definition/definition.ts'
import { listConditionParameters } from '../packages/resources/src/request/parameters.ts'
import { buildApp } from '../src/app.ts'
import { own } from '../src/own.ts'
import { listAllScopes, listDefinitions } from '../src/resources.ts'

const root = new URL('../', import.meta.url)

interface Section {
  /** The path of the page from the root of the repository. */
  file: string
  /** The name in the comments around the section: `<!-- name -->` and `<!-- /name -->`. */
  name: string
  build(): string | Promise<string>
}

const quote = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(', ')

/** Returns what the aggregates of a resource are computed of. */
const describeAggregates = ({ aggregates }: ResourceDefinition) =>
  aggregates &&
  `${quote(['count', ...(aggregates.measures ?? [])])} by ${quote(aggregates.groups ?? []) || 'nothing'}`

/** Returns the table of the filters, sorts, searched fields and aggregates of each resource. */
function formatListsTable(definitions: readonly ResourceDefinition[]): string {
  const rows = definitions.map((definition) => {
    const { name, filters, ranges = [], sorts, search } = definition
    const parameters = [...filters, ...listConditionParameters(definition).map(({ parameter }) => parameter)]
    const cells = [
      name,
      quote(parameters),
      quote(ranges),
      quote(Object.keys(sorts)),
      search.join(', '),
      describeAggregates(definition) ?? '',
    ]
    return `|${cells.map((cell) => (cell === '' ? ' ' : ` ${cell} `)).join('|')}|`
  })
  return [
    '| Collection | Filters | Ranges | Sort | Search | Aggregates |',
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n')
}

/** The access to an event depends on its resource, so that the matrix has no rows of events. */
const hasMatrix = ({ name }: { name: string }) => name !== 'events'
const all = listDefinitions()

async function buildMatrix(): Promise<string> {
  const shown = all.filter(hasMatrix)
  if (own.routes.length === 0) return formatAccessTables(shown)
  const app = await buildDocumentApp(buildApp)
  try {
    await app.ready()
    return formatAccessTables(shown, app)
  } finally {
    await app.close()
  }
}

export const sections: readonly Section[] = [
  { file: 'docs/callers/permissions.md', name: 'matrix', build: buildMatrix },
  { file: 'docs/callers/api-reference.md', name: 'lists', build: () => formatListsTable(all) },
  {
    file: 'docs/callers/authentication.md',
    name: 'scopes',
    build: () => `The scopes are ${quote(listAllScopes())}.`,
  },
  {
    file: 'docs/callers/error-codes.md',
    name: 'codes',
    build: () => `\n${writeErrorSections('##')}\n`,
  },
  { file: 'docs/operators/settings.md', name: 'settings', build: settingsTable },
]

/** Returns a page with a section brought up to date. @throws Error if the page lacks the comments around it */
async function replaceSection(page: string, { file, name, build }: Section): Promise<string> {
  const [start, end] = [`<!-- ${name} -->\n`, `\n<!-- /${name} -->`]
  const from = page.indexOf(start)
  const to = page.indexOf(end, from)
  if (from === -1 || to === -1)
    throw new Error(`${file}: the comments <!-- ${name} --> and <!-- /${name} --> are missing`)
  return page.slice(0, from + start.length) + (await build()) + page.slice(to)
}

/** Returns the page as it is and as it should be. */
export async function compareSection(section: Section): Promise<{ page: string; current: string }> {
  const page = await readFile(new URL(section.file, root), 'utf8')
  return { page, current: await replaceSection(page, section) }
}

/** Writes a section. @returns whether the page has changed */
export async function writeSection(section: Section): Promise<boolean> {
  const { page, current } = await compareSection(section)
  if (page === current) return false
  await writeFile(new URL(section.file, root), current)
  return true
}
