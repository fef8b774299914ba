/** Renders the pages of accounts from the template `account/page.html`. */
import { readFileSync } from 'node:fs'
import { identity } from '@resource-api/database'
import mustache from 'mustache'
import { findTemplate } from '../../template-folders.ts'

/** An input with its value or, after it was refused, what is wrong with it. */
interface Input {
  value?: string
  problem?: string | undefined
}

export interface Page {
  title: string
  /** What went wrong. */
  problem?: string | undefined
  text?: string
  form?: {
    /** Values that are sent with the inputs. */
    hidden: readonly { name: string; value: string }[]
    email?: Input
    /** With the name of the account, for password managers. */
    password?: Pick<Input, 'problem'> & { username: string }
    /** Whether the API keys can be deleted too, and whether that was chosen. */
    revoke?: false | { isChecked: boolean }
    button: string
  }
  /** The link below the rest: what the person does next. */
  next?: { href: string; text: string }
}

const read = (name: string) => readFileSync(findTemplate(`account/${name}`), 'utf8')

export const readStyles = (): string => read('account.css')

/**
 * Creates the function that renders pages. Their addresses are relative: a proxy can add a path prefix.
 * @throws Error if the template has an unclosed section
 */
export function createPageRenderer(): (page: Page, action: string) => string {
  const template = read('page.html')
  mustache.parse(template)
  // Values that a page lacks must not be found in the objects around it.
  const none = {
    problem: null,
    text: null,
    form: null,
    email: null,
    password: null,
    revoke: null,
    next: null,
  }
  return (page, action) =>
    mustache.render(template, {
      ...none,
      ...page,
      ...(page.form && {
        form: {
          ...page.form,
          email: page.form.email && { value: '', problem: null, ...page.form.email },
          password: page.form.password && { problem: null, ...page.form.password },
        },
      }),
      product: identity.title,
      action,
    })
}
