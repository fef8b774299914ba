/** Reads mailboxes of RFC 5322 (section 3.4), such as the sender of mails. */
import { createRequire } from 'node:module'
import type addressparser from 'nodemailer/lib/addressparser'

const require = createRequire(import.meta.url)

/** Characters. */
const MAX_NAME_LENGTH = 100
/** A quoted string, or a comment that contains neither, with its end. One without an end matches too, which takes linear time. */
const QUOTED_OR_COMMENT = /"(?:[^"\\]|\\.)*("?)|\([^()"\\]*(\)?)/g
/** What the parser reads without a guess, apart from quoted strings and comments. */
const NAME_AND_ADDRESS = /^[^<>()":;]*<[^<>()"]*>\s*$/
const ADDRESS = /^\s*[^\s<>()",:;]+\s*$/

export interface Mailbox {
  /** Empty if the mailbox has none. */
  name: string
  address: string
}

/**
 * Returns the mailbox that a text is. A comment is a part of the name: the parser would drop that of `Acme (EU) <a@b.co>`.
 * @returns undefined if the text is not one mailbox. The address is not validated
 */
export function parseMailbox(text: string): Mailbox | undefined {
  const unquoted = text.replace(QUOTED_OR_COMMENT, (part, quote, parenthesis) =>
    quote || parenthesis ? '' : part,
  )
  const hasName = NAME_AND_ADDRESS.test(unquoted)
  if (/\p{Cc}/u.test(text) || !(hasName || ADDRESS.test(unquoted))) return undefined
  const quoted = text.replace(QUOTED_OR_COMMENT, (part, _quote, parenthesis) =>
    hasName && parenthesis ? `"${part}"` : part,
  )
  // Loaded with the first sender: a server without mail does without it.
  const parse: typeof addressparser = require('nodemailer/lib/addressparser')
  const [mailbox, ...others] = parse(quoted)
  // A group has no address.
  if (mailbox?.address === undefined || others.length > 0) return undefined
  const { name, address } = mailbox
  return name.length > MAX_NAME_LENGTH ? undefined : { name, address }
}
