/** Asks on a terminal for the answers that the command line does not give. */
import { buildPlan } from './build-plan.ts'
import { getOwnerText } from './owner-paths.ts'
import type { Registered } from './registered.ts'
import type { Answers, Flag } from './resource-plan.ts'

interface Question {
  flag: Flag
  text: string
  /** Whether the question makes sense after the answers so far. Default: always. */
  isAsked?(answers: Answers): boolean
}

const isGiven = (answer: string | undefined) => answer !== undefined && answer !== '' && answer !== 'none'

const questions: readonly Question[] = [
  {
    flag: 'fields',
    text: 'Fields, for example title:text(1..200), price_amount:money, product_id:ref(products)',
  },
  { flag: 'parent', text: 'Parent in the path, for example users (empty: none)' },
  {
    flag: 'owner',
    text: 'Column of the user whose row it is, for example user_id, user_id:reads, or a path of relations (empty: none)',
    isAsked: ({ parent }) => parent !== 'users',
  },
  {
    flag: 'on-delete',
    text: 'When the owner or the parent is deleted: restrict or cascade (empty: restrict)',
    isAsked: ({ owner, parent }) => isGiven(getOwnerText(owner)) || isGiven(parent),
  },
  { flag: 'states', text: 'States, "!" for final ones, for example draft>published>archived! (empty: none)' },
  {
    flag: 'states-by',
    text: 'Who changes the status: staff or owner (empty: staff)',
    isAsked: ({ states, owner, parent }) =>
      isGiven(states) &&
      (isGiven(getOwnerText(owner)) || parent === 'users') &&
      !getOwnerText(owner)?.includes(':reads'),
  },
  {
    flag: 'visible',
    text: 'What members read besides their own rows: status=published, all or none (empty: none)',
  },
  {
    flag: 'restrict',
    text: 'Fields of some roles, for example cost:read=admin,manager:write=admin (empty: none)',
  },
  { flag: 'unique', text: 'Fields that are unique together, for example user_id,product_id (empty: none)' },
  { flag: 'description', text: 'Description in one line (empty: the name)' },
]

/**
 * Returns the answers with those to the questions. A question whose answer is wrong is asked again.
 * @param ask shows a question and resolves to the line that was typed
 * @param show shows what is wrong with an answer
 */
export async function askAnswers(
  given: Answers,
  registered: readonly Registered[],
  ask: (question: string) => Promise<string>,
  show: (problem: string) => void,
): Promise<Answers> {
  let answers = given
  for (const { flag, text, isAsked } of questions) {
    if (answers[flag] !== undefined || isAsked?.(answers) === false) continue
    let problem: string | undefined
    do {
      const line = (await ask(`${text}\n> `)).trim()
      const next = line === '' ? answers : { ...answers, [flag]: line }
      const found = buildPlan(next, registered).problems.filter((each) => each.flag === flag)
      problem = found.length > 0 ? found.map(({ message }) => message).join('\n') : undefined
      if (problem === undefined) answers = next
      else show(problem)
    } while (problem !== undefined)
  }
  return answers
}
