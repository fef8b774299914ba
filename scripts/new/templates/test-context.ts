/** What the tests of a new resource share: the clients, the path and a valid body. */
import type { Role } from '../../../packages/database/src/application.ts'
import { toWords } from '../../../packages/http/src/lib/to-words.ts'
import type { Reference, ResourcePlan } from '../resource-plan.ts'

export interface Context {
  plan: ResourcePlan
  /** `review` */
  word: string
  /** `reviews` */
  words: string
  /** The references that a body has: not those in the path, nor the owner. */
  sent: readonly Reference[]
  /** Writes a test. Its statements may use `userId` and `owner`, a member, `other`, another one, `author`, and `path`. */
  writeCase(title: string, statements: string): string
}

/** The body of a new row, whose owner is the user. Each one has other values of unique fields. */
export const NEW_BODY = 'await newBody(userId)'

/** The function that returns a valid body. */
export const writeBody = ({ name }: ResourcePlan) =>
  `/** Returns a valid body: test/${name}.examples.ts. */
  const newBody = (owner: string) => rows.buildCreation('${name}', owner)`

/** The role of the client that creates rows. */
export const getAuthorRole = ({ owner, isOwnerWriting }: ResourcePlan): Role =>
  owner && isOwnerWriting ? 'member' : 'admin'

/** The client that creates rows: the owner, or the admin if members do not write. */
const getAuthor = ({ owner, isOwnerWriting }: ResourcePlan) => (owner && isOwnerWriting ? 'owner' : 'admin')

export function createContext(plan: ResourcePlan): Context {
  const { name, parent, owner } = plan
  const path =
    parent === owner
      ? `\`/users/\${userId}/${name}\``
      : `\`/${parent?.to.name}/\${await rows.getParent('${name}', userId)}/${name}\``
  return {
    plan,
    word: toWords(plan.singular),
    words: toWords(name),
    sent: plan.references.filter((each) => each !== owner && each !== parent),
    writeCase(title, written) {
      const statements = written.replaceAll('author.', `${getAuthor(plan)}.`)
      const uses = (use: RegExp) => use.test(statements)
      const usesPath = parent !== undefined && uses(/\bpath\b/)
      const usesId = uses(/\buserId\b/) || usesPath
      const names = [...(usesId ? ['id: userId'] : []), ...(uses(/\bowner\./) ? ['client: owner'] : [])]
      const lines = [
        ...(names.length > 0 ? [`const { ${names.join(', ')} } = await person('member')`] : []),
        ...(uses(/\bother\./) ? [`const { client: other } = await person('member')`] : []),
        ...(usesPath ? [`const path = ${path}`] : []),
        statements.trim(),
      ]
      return `t.test('${title}', async (t) => {
    ${lines.join('\n    ')}
  })`
    },
  }
}
