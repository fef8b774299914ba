/** `npm run new -- --field patients.phone:text`: adds a field to the files of a resource. Writes nothing. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from '../../packages/http/src/commands/usage-error.ts'
import { toWords, withArticle } from '../../packages/http/src/lib/to-words.ts'
import { getDefaultLists } from './build-plan.ts'
import { readReference } from './checks.ts'
import { addNames, insertAfter, insertBefore } from './edits.ts'
import { type Field, readField } from './fields.ts'
import { toCamel, toSnake } from './names.ts'
import type { Registered } from './registered.ts'
import { format, type RenderedFile, ROOT } from './render.ts'
import type { Reference, ResourcePlan } from './resource-plan.ts'
import { findUsed, list, literal } from './templates/code.ts'
import { writeDemoValue } from './templates/demo-rows.ts'
import { LIMITED, listFurtherFilters, toTableModule, writeRelation } from './templates/plugin.ts'
import { schemaHelpers, writeField, writeValues } from './templates/schema.ts'
import {
  columnHelpers,
  drizzleHelpers,
  toModule,
  writeColumn,
  writeFieldIndexes,
  writeKeyIndexes,
} from './templates/table.ts'
import { getInvalid, getOther } from './templates/values.ts'

export interface FieldPlan {
  resource: Registered
  field: Field
  /** Of a field of the type `ref`. */
  reference: Reference | undefined
}

/** Returns whether rows of a resource refer to rows of another one, directly or through others. */
function refersTo(
  from: string,
  to: string,
  registered: readonly Registered[],
  seen = new Set<string>(),
): boolean {
  if (from === to) return true
  if (seen.has(from)) return false
  seen.add(from)
  const next = registered.find(({ name }) => name === from)?.refersTo ?? []
  return next.some((each) => refersTo(each, to, registered, seen))
}

/** @throws UsageError if there is no such resource, or its rows refer to those of this one */
function readFieldReference(field: Field, resource: Registered, registered: readonly Registered[]) {
  if (field.type !== 'ref') return undefined
  const reference = readReference(field.to, field.name, field.cascades, registered)
  if (refersTo(field.to, resource.name, registered)) {
    throw new UsageError(
      `rows of ${field.to} refer to ${resource.name}: a backup loads the rows that others refer to first`,
    )
  }
  return reference
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
  let reference: Reference | undefined
  try {
    reference = field && resource && readFieldReference(field, resource, registered)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    report(`${field?.name}: ${error.message}`)
  }
  if (!field || !resource || mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
  return { resource, field: { ...field, isNullable: field.default === undefined }, reference }
}

/** Returns what the templates need to know of the resource. */
function toPlan({ resource, field, reference }: FieldPlan): ResourcePlan {
  const { name, singular, plural, parent } = resource
  const { isFiltered, isSorted } = getDefaultLists(field)
  return {
    ...{ name, singular, plural, variable: toCamel(name), table: toSnake(name), description: '' },
    fields: [field],
    parent: parent && { column: parent.member, to: resource, table: '', file: '', cascades: false },
    ...{
      owner: undefined,
      isOwnerWriting: false,
      ownConditions: [],
      ownerPaths: [],
      restrictions: [],
      states: undefined,
      isStatusForStaff: false,
      visible: 'all',
    },
    filters: isFiltered ? [field.name] : [],
    sorts: isSorted ? [field.name] : [],
    ...{ search: [], unique: [], actions: [], references: reference ? [reference] : [] },
  }
}

/** What an edit of a file needs. */
interface Edit {
  plan: ResourcePlan
  field: Field
  reference: Reference | undefined
  resource: Registered
  /** Whether the table has a column for search. */
  hasSearch: boolean
  /** Relative to the repository. */
  file: string
}

/** Adds a list of immutable fields to the schemas of a row and of its creation, and not to that of changes. */
function addImmutable(text: string, singular: string, file: string): string {
  const withList = insertBefore(text, 'const fields = {', 'const immutable = {}\n\n', file)
  const withRow = withList.replace(/\.\.\.fields,(\s*)\.\.\.common/, '...immutable, ...fields, ...common')
  const anchor = `export const ${singular}Create = Type.Object(`
  const [before = '', after = ''] = withRow.split(anchor)
  const edited = /^\s*fields\b/.test(after)
    ? after.replace('fields', '{ ...immutable, ...fields }')
    : after.replace('...fields', '...immutable, ...fields')
  if (withRow === withList || edited === after)
    throw new Error(`${file} should contain "${anchor}" and "...fields"; add the field there by hand`)
  return `${before}${anchor}${edited}`
}

function editSchema(original: string, { plan, field, file }: Edit): string {
  const anchor = field.isImmutable ? 'const immutable = {' : 'const fields = {'
  const isMissing = field.isImmutable && !original.includes(anchor)
  const text = isMissing ? addImmutable(original, plan.singular, file) : original
  const start = text.indexOf(anchor)
  // Immutable fields are few, and may stand on one line.
  const end = field.isImmutable ? start + anchor.length : text.indexOf('\n}', start)
  if (start === -1 || end === -1)
    throw new Error(`${file} should contain "${anchor}"; add the field there by hand`)
  const code = writeField(plan, field)
  const added = `${writeValues(plan)}${text.slice(start, end)}\n  ${code}`
  return addNames(
    `${text.slice(0, start)}${added}${text.slice(end)}`,
    findUsed(schemaHelpers, code),
    '@resource-api/http/schemas',
    file,
  )
}

/** Adds the import of the table of a reference. */
const addTable = (
  text: string,
  reference: Reference | undefined,
  module: (path: string) => string,
  file: string,
) => (reference ? addNames(text, [reference.table], module(reference.file), file) : text)

function editTable(text: string, { plan, field, reference, file }: Edit): string {
  const start = text.indexOf(`'${plan.table}',`)
  if (start === -1) throw new Error(`${file} should contain "'${plan.table}',"; add the column there by hand`)
  const column = writeColumn(plan, field)
  const indexes = [...writeFieldIndexes(plan), ...writeKeyIndexes(plan)].join('\n')
  const rest = insertBefore(text.slice(start), '\n  },\n  (t) => [', `\n    ${column}`, file)
  const edited = text.slice(0, start) + insertAfter(rest, '  (t) => [', `\n    ${indexes}`, file)
  const code = `${column}\n${indexes}`
  const withDrizzle = addNames(edited, findUsed(drizzleHelpers, code), 'drizzle-orm/pg-core', file)
  const withColumns = addNames(withDrizzle, findUsed(columnHelpers, code), '@resource-api/database', file)
  return addTable(withColumns, reference, toModule, file)
}

/** Adds names to a list in `lists` or `bodies` of a collection. */
function addToGroup(
  text: string,
  group: 'bodies' | 'lists',
  part: string,
  names: readonly string[],
  file: string,
): string {
  const start = `\n  ${group}: {`
  // On one line, or over several.
  const whole = new RegExp(`\\n  ${group}: \\{(?:.*\\},|[\\s\\S]*?\\n  \\},)(?=\\n)`)
  const [found] = whole.exec(text) ?? []
  if (found === undefined)
    return insertBefore(text, '\n  lists: {', `${start} ${part}: ${list(names)} },`, file)
  const anchor = new RegExp(`\\b${part}: \\[`).exec(found)?.[0]
  const edited =
    anchor === undefined
      ? insertAfter(found, start, `\n    ${part}: ${list(names)},`, file)
      : insertAfter(found, anchor, names.map((name) => `'${name}', `).join(''), file)
  return text.replace(found, () => edited)
}

function editPlugin(text: string, { plan, field, reference, hasSearch, file }: Edit): string {
  const add = (whole: string, anchor: string, code: string) => insertAfter(whole, anchor, code, file)
  let edited = addTable(text, reference, toTableModule, file)
  if (reference) edited = add(edited, '\nconst relations = {', ` ${writeRelation(plan, reference)} `)
  if (field.isImmutable) edited = addToGroup(edited, 'bodies', 'immutable', [field.name], file)
  if (plan.filters.length > 0) edited = addToGroup(edited, 'lists', 'filters', [field.name], file)
  if (plan.sorts.length > 0) {
    edited = addToGroup(edited, 'lists', 'sorts', [field.name], file)
    if (LIMITED.has(field.type)) edited = addToGroup(edited, 'lists', 'ranges', [field.name], file)
  }
  for (const [part, names] of Object.entries(listFurtherFilters(plan)))
    if (names.length > 0) edited = addToGroup(edited, 'lists', part, names, file)
  // The search text of rows that exist has no default value, and has its lines in the order of the fields.
  const isSearched = getDefaultLists(field).isSearched && field.isNullable && hasSearch
  if (!isSearched) return edited
  const start = edited.indexOf('\n    search: [')
  if (start === -1) throw new Error(`${file} should contain "search: ["; add the field there by hand`)
  const end = edited.indexOf(']', start)
  const before = edited.slice(0, end).trimEnd()
  const comma = before.endsWith('[') || before.endsWith(',') ? '' : ','
  return `${before}${comma} '${field.name}'${edited.slice(end)}`
}

function editDemoRows(text: string, { field, file }: Edit): string {
  const anchor = /\n *\.\.\.buildBase\([^\n]*\),/.exec(text)?.[0]
  if (anchor === undefined)
    throw new Error(`${file} should contain "...buildBase(", add a value of the field by hand`)
  // The rows that it refers to may be written later.
  const value = field.type === 'ref' ? 'null' : writeDemoValue(field, false)
  const code = `${field.name}: ${value},`
  return addNames(
    insertAfter(text, anchor, `\n    ${code}`, file),
    findUsed(['DAY_MS', 'toIsoString'], code),
    '@resource-api/accounts/seed',
    file,
  )
}

/** Adds a test of the field, which creates and changes a row as an admin. */
function editTest(text: string, { plan, field, reference, resource: { parent }, file }: Edit): string {
  const { name } = plan
  const path = parent ? `/${parent.to}/\${await rows.getParent('${name}', userId)}/${name}` : `/${name}`
  const other = reference ? 'other' : literal(getOther(field) ?? null)
  const invalid = reference ? { value: 'userId', code: 'NOT_FOUND' } : getInvalid(field)
  const found = `data.${field.name}`
  const sent = `{ ${field.name}: ${other} }`
  const change = field.isImmutable
    ? `const { data: set } = (await admin.post(path, { ...(await rows.buildCreation('${name}', userId)), ${field.name}: ${other} })).body
  t.same(set.${field.name}, ${other})
  t.same(getViolations(await admin.patch(address, ${sent})), ['${field.name} READ_ONLY'])`
    : `t.same((await admin.patch(address, ${sent})).body.${found}, ${other})
  ${invalid ? `t.same(getViolations(await admin.patch(address, { ${field.name}: ${invalid.value} })), ['${field.name} ${invalid.code}'])` : ''}`
  const code = `
t.test('${withArticle(toWords(plan.singular))} has the field ${field.name}', async (t) => {
  const api = await testApp(t, buildApp)
  const { admin, person } = api
  const { id: userId } = await person('member')
  const rows = createExampleRows(api, await loadExamples('test'))
  ${reference ? `const other = await rows.insertRow('${reference.to.name}', userId)` : ''}
  const path = \`${path}\`
  const body = { ...(await rows.buildCreation('${name}', userId)), ${field.name}: undefined }
  const { data } = (await admin.post(path, body)).body
  t.same(${found}, ${literal(field.default ?? null)})
  const address = \`\${path}/\${data.id}\`
  ${change}
})
`
  const imports = [
    ['testApp', '@resource-api/testing'],
    ['createExampleRows', '@resource-api/testing'],
    ['loadExamples', '@resource-api/testing'],
    ['getViolations', '@resource-api/testing'],
    ['buildApp', '../src/app.ts'],
  ] as const
  const isUsed = ([helper]: (typeof imports)[number]) => code.includes(helper)
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
    [`plugins/${name}.ts`, editPlugin],
    [`src/cli/demo-data/${name}.ts`, editDemoRows],
    [`test/${name}.test.ts`, editTest],
  ]
  return edits
    .filter(([file]) => existsSync(join(ROOT, file)))
    .map(([file, edit]) => {
      const text = edit(readFileSync(join(ROOT, file), 'utf8'), { ...fieldPlan, plan, hasSearch, file })
      return { path: file, isNew: false, text: format(file, text) }
    })
}
