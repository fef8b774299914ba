/**
 * Renders mails from the files in `templates/` of this package, and in the folder of the application, whose files win. Mustache
 * has no code in templates, escapes values in HTML, and is a single file without dependencies.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { identity } from '@resource-api/database'
import mustache, { type TemplateSpans } from 'mustache'
import { templateFolders } from '../template-folders.ts'

const link = {
  link: 'https://example.com/account/reset?id=0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f&token=a-sample-without-effect',
  expires: '2026-11-24 10:00 UTC',
}
const reset_link = 'https://example.com/account/reset'
const request = { time: '2026-11-24 09:30 UTC', ip: '203.0.113.7' }

/** The mails of the package, each with a sample of its own values. An application may have others. */
const ownValues = {
  'password-reset': link,
  invitation: link,
  'email-verification': link,
  'account-exists': { reset_link },
  'password-changed': { ...request, reset_link },
  'email-changed': request,
  'api-key-created': { key: 'Nightly report', ...request },
  'new-sign-in': { ...request, reset_link },
} satisfies Record<string, TemplateValues>

const commonValues = { product: identity.title, recipient: 'jane@example.com', name: 'Jane Doe' }

/** A sample of the values of each mail of the package, which are all that its files may name. */
export const sampleValues: ReadonlyMap<string, TemplateValues> = new Map(
  Object.entries(ownValues).map(([name, values]) => [name, { ...commonValues, ...values }]),
)

/** The first line of the text of a mail. */
const SUBJECT = /^Subject: (.+)\r?\n\s*/

interface RenderedMail {
  subject: string
  text: string
  html: string
}

export type TemplateValues = Readonly<Record<string, string>>

/** @throws Error if there is no such template */
export type RenderMail = (template: string, values: TemplateValues) => RenderedMail

interface Templates {
  /** The folder in which an application adds templates: its own, if it has one. */
  folder: string
  names: readonly string[]
  render: RenderMail
  /** Returns values for a preview: for a template of the application, the names themselves. */
  getSample(name: string): TemplateValues
}

/** Returns a value as one line without control characters, so that no name begins a paragraph of its own. */
const toLine = (value: string) => value.replace(/[\s\p{Cc}]+/gu, ' ').trim()

const renderText = (source: string, values: TemplateValues) =>
  mustache.render(source, values, {}, { escape: String })

/** Lists all tags, with those within sections: pairs of the type and the name. */
const listTags = (spans: TemplateSpans): (readonly [type: string, name: string])[] =>
  spans.flatMap(([type, name, , , children]) =>
    type === 'text' ? [] : [[type, name], ...(Array.isArray(children) ? listTags(children) : [])],
  )

interface Known {
  /** Names of values; undefined for a template of the application, of which they are not known. */
  values: readonly string[] | undefined
  partials: Readonly<Record<string, string>>
}

/** Checks one file. @throws Error for the first mistake */
function check(source: string, { values, partials }: Known): void {
  for (const [type, name] of listTags(mustache.parse(source))) {
    if (type === '&') throw new Error(`{{{${name}}}} or {{&${name}}} would not be escaped: write {{${name}}}`)
    const known = type === '>' ? Object.keys(partials) : values
    if (known && !known.includes(name))
      throw new Error(`{{${type === '>' ? '> ' : ''}${name}}} is not known; there are ${known.join(', ')}`)
  }
}

/**
 * Reads all templates: a `.txt` and an `.html` file each. Files whose names begin with `_` are parts of others.
 * @param folders of files with the same name, the one of the last folder wins
 * @throws Error with all mistakes, one on each line
 */
export function loadTemplates(folders = templateFolders): Templates {
  const paths = new Map(folders.flatMap((each) => readdirSync(each).map((file) => [file, join(each, file)])))
  const files = [...paths.keys()]
  const folder = folders.at(-1) ?? ''
  /** Returns the path of a file, or where it would be. */
  const locate = (file: string) => paths.get(file) ?? join(folder, file)
  const read = (file: string) => readFileSync(locate(file), 'utf8')
  const partials = Object.fromEntries(
    files.filter((file) => /^_.*\.html$/.test(file)).map((file) => [file.slice(0, -5), read(file)]),
  )
  const names = files.filter((file) => /^[^_].*\.txt$/.test(file)).map((file) => file.slice(0, -4))
  const templates = new Map<string, RenderedMail>()

  const render: RenderMail = (name, given) => {
    const template = templates.get(name)
    if (!template) throw new Error(`There is no template ${locate(`${name}.txt`)}`)
    const values = Object.fromEntries(Object.entries(given).map(([key, value]) => [key, toLine(value)]))
    const subject = renderText(template.subject, values)
    return {
      subject,
      text: renderText(template.text, values),
      html: mustache.render(template.html, { ...values, subject }, partials),
    }
  }

  const mistakes: string[] = []
  /** Reads a file by `work`, or adds what is wrong with it. */
  const attempt = (file: string, work: () => void) => {
    try {
      work()
    } catch (error) {
      mistakes.push(`${locate(file)}: ${error instanceof Error ? error.message : error}`)
    }
  }
  for (const name of new Set([...sampleValues.keys(), ...names])) {
    const sample = sampleValues.get(name)
    const values = sample && Object.keys(sample)
    const template = { subject: '', text: '', html: '' }
    attempt(`${name}.txt`, () => {
      const whole = read(`${name}.txt`)
      template.subject = SUBJECT.exec(whole)?.[1] ?? ''
      if (template.subject === '') throw new Error('the first line must be "Subject: " and the subject')
      template.text = whole.replace(SUBJECT, '')
      check(whole, { values, partials: {} })
    })
    attempt(`${name}.html`, () => {
      template.html = read(`${name}.html`)
      check(template.html, { values: values && [...values, 'subject'], partials })
      templates.set(name, template)
      // Finds what only rendering does, such as a part that contains itself.
      if (sample) render(name, sample)
    })
  }
  const common = [...Object.keys(commonValues), 'subject']
  for (const [name, source] of Object.entries(partials))
    attempt(`${name}.html`, () => check(source, { values: common, partials }))
  if (mistakes.length > 0) throw new Error(`Templates of mails are wrong:\n${mistakes.join('\n')}`)
  return {
    folder,
    names,
    render,
    getSample(name) {
      const template = templates.get(name)
      const tags = listTags(mustache.parse(template ? Object.values(template).join('\n') : ''))
      const own = tags.filter(([type]) => type !== '>').map(([, tag]) => [tag, `[${tag}]`])
      return sampleValues.get(name) ?? { ...Object.fromEntries(own), ...commonValues }
    },
  }
}
