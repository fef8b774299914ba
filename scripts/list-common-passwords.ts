/** The passwords of zxcvbn's list of 49,000 that are long enough to be accepted otherwise. */
import common from '@zxcvbn-ts/language-common'
import { Password } from '../packages/accounts/src/schemas/users.ts'

/** Returns them in lower case, the commonest first. */
export function listCommonPasswords(): string[] {
  const { minLength = 0 } = Password('')
  const all = common.dictionary['passwords-common']
  return [...new Set(all.filter(({ length }) => length >= minLength).map((each) => each.toLowerCase()))]
}
