/** `npm run new -- --field patients.phone:text`: adds a field to the files of a resource. Writes nothing. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { toWords, withArticle } from '../../lib/to-words.ts'
import { UsageError } from '../../src/cli/usage-error.ts'
import { getDefaultLists } from './build-plan.ts'
import { addNames, insertAfter, insertBefore } from './edits.ts'
import { type Field, readField } from './fields.ts'
import { toCamel, toSnake } from './names.ts'
import type { Registered } from './registered.ts'
import { format, type RenderedFile, ROOT } from './render.ts'
import type { ResourcePlan } from './resource-plan.ts'
import { findUsed, list, literal } from './templates/code.ts'
import { LIMITED } from './templates/definition.ts'
import { writeDemoValue } from './templates/demo-rows.ts'
import { schemaHelpers, writeField, writeValues } from './templates/schema.ts'
import { columnHelpers, drizzleHelpers, writeColumn, writeFieldIndexes } from './templates/table.ts'
import { getInvalid, getOther } from './templates/values.ts'

export interface FieldPlan {
  resource: Registered
  field: Field
}

/**
 * Reads `patients.phone:text`. Without a default the field is nullable: the rows that exist have no value.
 * @throws UsageError with all mistakes
 */
export function readFieldPlan(text: string, registered: readonly Registered[]): FieldPlan {
  const mistakes: string[] = []
  const report = (message: string) => mistakes.push(`--field: ${message}`)
  const [, name = '', described = ''] = /^([^.:]*)\.(.*)$/s.exec(text.trim()) ?? []
  const known = registered.filter(({ table }) => table?.file.startsWith('tables/'))
  const resource = known.find((each) => each.name === name)
  if (!resource) {
    report(
      `write RESOURCE.NAME:TYPE with one of ${known.map((each) => each.name).join(', ') || 'your resources'}`,
    )
  }
  const { field } = readField(described, report)
  if (field && resource?.fields.includes(field.name)) report(`${name} has a field "${field.name}" already`)
  if (field?.type === 'ref') report(`${field.name}: write references by hand, as those of other resources`)
  if (field?.isImmutable) report(`${field.name}: leave out the "!": rows that exist could never have a value`)
  if (!field || !resource || mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
  return { resource, field: { ...field, isNullable: field.default === undefined } }
}

/** Returns what the templates need to know of the resource. */
function toPlan({ resource, field }: FieldPlan): ResourcePlan {
  const { name, singular, plural, parent } = resource
  const { isFiltered, isSorted } = getDefaultLists(field)
  return {
    ...{ name, singular, plural, variable: toCamel(name), table: toSnake(name), description: '' },
    fields: [field],
    parent: parent && { column: parent.member, to: resource, table: '', file: '', cascades: false },
    ...{
      owner: undefined,
      isOwnerWriting: false,
      states: undefined,
      isStatusForStaff: false,
      visible: 'all',
    },
    filters: isFiltered ? [field.name] : [],
    sorts: isSorted ? [field.name] : [],
    ...{ search: [], unique: [], operations: [], references: [] },
  }
}

/** What an edit of a file needs. */
interface Edit {
  plan: ResourcePlan
  field: Field
  resource: Registered
  /** Whether the table has a column for search. */
  hasSearch: boolean
  /** Relative to the repository. */
  file: string
}

function editSchema(text: string, { plan, field, file }: Edit): string {
  const anchor = 'const fields = {'
  const start = text.indexOf(anchor)
  const end = text.indexOf('\n}', start)
  if (start === -1 || end === -1)
    throw new Error(`${file} should contain "${anchor}"; add the field there by hand`)
  const code = writeField(plan, field)
  const added = `${writeValues(plan)}${text.slice(start, end)}\n  ${code}`
  return addNames(
    `${text.slice(0, start)}${added}${text.slice(end)}`,
    findUsed(schemaHelpers, code),
    './types.ts',
    file,
  )
}

function editTable(text: string, { plan, field, file }: Edit): string {
  const start = text.indexOf(`'${plan.table}',`)
  if (start === -1) throw new Error(`${file} should contain "'${plan.table}',"; add the column there by hand`)
  const column = writeColumn(plan, field)
  const indexes = writeFieldIndexes(plan).join('\n')
  const rest = insertBefore(text.slice(start), '\n  },\n  (t) => [', `\n    ${column}`, file)
  const edited = text.slice(0, start) + insertAfter(rest, '  (t) => [', `\n    ${indexes}`, file)
  const code = `${column}\n${indexes}`
  const withDrizzle = addNames(edited, findUsed(drizzleHelpers, code), 'drizzle-orm/pg-core', file)
  return addNames(withDrizzle, findUsed(columnHelpers, code), '../columns.ts', file)
}

function editDefinition(text: string, { plan, field, hasSearch, file }: Edit): string {
  const add = (whole: string, anchor: string, code: string) => insertAfter(whole, anchor, code, file)
  let edited = text
  if (plan.filters.length > 0) edited = add(edited, '\n  filters: [', `'${field.name}', `)
  if (plan.sorts.length > 0) {
    edited = add(edited, '\n  sorts: {', ` ${field.name}: ${plan.variable}.${field.name}, `)
    if (LIMITED.has(field.type)) {
      edited = edited.includes('\n  ranges: [')
        ? add(edited, '\n  ranges: [', `'${field.name}', `)
        : insertBefore(edited, '\n  sorts: {', `\n  ranges: ${list([field.name])},`, file)
    }
  }
  // The search text of rows that exist has no default value.
  const isSearched = getDefaultLists(field).isSearched && field.isNullable && hasSearch
  return isSearched ? add(edited, '\n  search: [', `'${field.name}', `) : edited
}

function editDemoRows(text: string, { field, file }: Edit): string {
  const anchor = /\n *\.\.\.buildBase\([^\n]*\),/.exec(text)?.[0]
  if (anchor === undefined)
    throw new Error(`${file} should contain "...buildBase(", add a value of the field by hand`)
  const code = `${field.name}: ${writeDemoValue(field, false)},`
  return addNames(
    insertAfter(text, anchor, `\n    ${code}`, file),
    findUsed(['DAY_MS', 'toIsoString'], code),
    './step.ts',
    file,
  )
}

/** Adds a test of the field, which creates and changes a row as an admin. */
function editTest(text: string, { plan, field, resource: { parent }, file }: Edit): string {
  const { name } = plan
  const path = parent ? `/${parent.to}/\${await rows.getParent('${name}', userId)}/${name}` : `/${name}`
  const changed = literal(getOther(field) ?? null)
  const invalid = getInvalid(field)
  const code = `
t.test('${withArticle(toWords(plan.singular))} has the field ${field.name}', async (t) => {
  const { admin, database, person } = await testApp(t)
  const { id: userId } = await person('member')
  const rows = createExampleRows(database)
  const path = \`${path}\`
  const { data } = (await admin.post(path, await rows.buildCreation('${name}', userId))).body
  t.same(data.${field.name}, ${literal(field.default ?? null)})
  const address = \`\${path}/\${data.id}\`
  t.same((await admin.patch(address, { ${field.name}: ${changed} })).body.data.${field.name}, ${changed})
  ${invalid ? `t.same(getViolations(await admin.patch(address, { ${field.name}: ${invalid.value} })), ['${field.name} ${invalid.code}'])` : ''}
})
`
  const imports = [
    ['testApp', '../helpers/app.ts'],
    ['createExampleRows', '../helpers/example-rows.ts'],
    ['getViolations', '../helpers/replies.ts'],
  ] as const
  const isUsed = ([helper]: (typeof imports)[number]) => code.includes(`${helper}(`)
  return imports
    .filter(isUsed)
    .reduce((edited, [helper, module]) => addNames(edited, [helper], module, file), text + code)
}

/**
 * Renders the files of the resource with the field.
 * @throws Error if a file has no place for it
 */
export function renderField(fieldPlan: FieldPlan): RenderedFile[] {
  const { resource } = fieldPlan
  const plan = toPlan(fieldPlan)
  const { name } = resource
  const tableFile = `drizzle/${resource.table?.file}`
  const hasSearch = readFileSync(join(ROOT, tableFile), 'utf8').includes('search: folded()')
  const edits: [file: string, edit: (text: string, edit: Edit) => string][] = [
    [`schemas/${name}.ts`, editSchema],
    [tableFile, editTable],
    [`plugins/resources/${name}.ts`, editDefinition],
    [`src/cli/demo-data/${name}.ts`, editDemoRows],
    [`test/resources/${name}.test.ts`, editTest],
  ]
  return edits
    .filter(([file]) => existsSync(join(ROOT, file)))
    .map(([file, edit]) => {
      const text = edit(readFileSync(join(ROOT, file), 'utf8'), { ...fieldPlan, plan, hasSearch, file })
      return { path: file, isNew: false, text: format(file, text) }
    })
}
