/** What the tests of a new resource share: the clients, the path and a valid body. */
import { toWords } from '../../../lib/to-words.ts'
import { CALLER, type Condition } from '../../../plugins/access/index.ts'
import type { Field } from '../fields.ts'
import type { Reference, ResourcePlan } from '../resource-plan.ts'
import { literal } from './code.ts'
import { getExample } from './values.ts'

export interface Context {
  plan: ResourcePlan
  /** `review` */
  word: string
  /** `reviews` */
  words: string
  /** The references that a body has: not those in the path, nor the owner. */
  sent: readonly Reference[]
  /** The statements that begin each test: the clients, and the path of the collection. */
  begin(names?: readonly ('other' | 'userId' | 'no author')[]): string
}

/** Returns a value as code. In a unique key it is another one for each row. */
function writeValue({ plan }: Context, field: Field): string {
  const example = literal(getExample(field) ?? '')
  if (!plan.unique.includes(field.name)) return example
  switch (field.type) {
    case 'text':
    case 'multiline':
      return `String(++made).padStart(${field.min}, '0')`
    case 'integer':
    case 'money':
      return `${field.min} + ++made`
    case 'date':
      return 'new Date(Date.UTC(2026, 0, ++made)).toISOString().slice(0, 10)'
    case 'timestamp':
      return 'new Date(Date.UTC(2026, 0, ++made)).toISOString()'
    case 'url':
      return `\`https://example.com/\${++made}\``
    default:
      return example
  }
}

/** Returns the id of a row that the author may read, as code. An admin reads all rows. */
function writeReferenced({ plan }: Context, { table, to }: Reference): string {
  const conditions = plan.owner && typeof to.memberReads === 'object' ? to.memberReads : []
  const condition: Condition = conditions[0] ?? {}
  if (condition.id === CALLER) return 'userId'
  const values = Object.entries(condition).map(
    ([name, value]) => `${name}: ${value === CALLER ? 'userId' : literal(value)}`,
  )
  return `await insertRow(database, ${table}${values.length > 0 ? `, { ${values.join(', ')} }` : ''})`
}

/** The function that returns a valid body with the required fields. */
export function writeBody(context: Context): string {
  const { plan, sent, word } = context
  const fields = plan.fields.filter((field) => field.default === undefined && !field.isNullable)
  const values = fields.map((field) => {
    const reference = sent.find(({ column }) => column === field.name)
    return `${field.name}: ${reference ? writeReferenced(context, reference) : writeValue(context, field)},`
  })
  const isAsync = values.some((value) => value.includes('await '))
  const parameter = values.some((value) => value.includes('userId')) ? 'userId: string' : ''
  return `/** Returns the body of a new ${word}. */
  const newBody = ${isAsync ? 'async ' : ''}(${parameter}) => (${isAsync ? '' : ''}{ ${values.join('\n')} })`
}

export function callBody(context: Context): string {
  const body = writeBody(context)
  return `${body.includes('= async (') ? 'await ' : ''}newBody(${body.includes('(userId: string)') ? 'userId' : ''})`
}

export const wrap = (code: string) => (code.startsWith('await') ? `(${code})` : code)

export function createContext(plan: ResourcePlan): Context {
  const { name, owner, parent } = plan
  const path =
    parent === undefined
      ? undefined
      : parent === owner
        ? `\`/users/\${userId}/${name}\``
        : `\`/${parent.to.name}/\${await insertRow(database, ${parent.table})}/${name}\``
  const context: Context = {
    plan,
    word: toWords(plan.singular),
    words: toWords(name),
    sent: plan.references.filter((each) => each !== owner && each !== parent),
    begin(names = []) {
      const hasId =
        names.includes('userId') ||
        (parent !== undefined && parent === owner) ||
        callBody(context).includes('userId')
      const author = [
        ...(hasId ? ['id: userId'] : []),
        ...(names.includes('no author') ? [] : ['client: author']),
      ]
      return [
        owner ? `const { ${author.join(', ')} } = await person('member')` : '',
        names.includes('other') ? `const { client: other } = await person('member')` : '',
        path ? `const path = ${path}` : '',
      ]
        .filter((line) => line !== '')
        .join('\n    ')
    },
  }
  return context
}
