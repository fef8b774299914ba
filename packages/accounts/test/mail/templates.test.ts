/** The templates of mails: what a team can write, and what stops the start. */
import { cpSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { testFolder } from '../../../testing/helpers/database.ts'
import { loadTemplates, sampleValues } from '../../src/mail/templates.ts'

/** Returns a copy of the templates with other files. A text of `undefined` removes the file. */
function createFolder(t: Test, files: Record<string, string | undefined>): string {
  const folder = join(testFolder(t), 'templates')
  cpSync(fileURLToPath(new URL('../../templates', import.meta.url)), folder, {
    recursive: true,
  })
  for (const [name, text] of Object.entries(files)) {
    if (text === undefined) rmSync(join(folder, name))
    else writeFileSync(join(folder, name), text)
  }
  return folder
}

t.test('each mail of the product has its values in the text and in HTML', async (t) => {
  const { names, render } = loadTemplates()
  t.same([...names].sort(), [...sampleValues.keys()].sort())
  for (const [name, values] of sampleValues) {
    const { subject, text, html } = render(name, values)
    t.notMatch(subject + text + html, /\{\{|\}\}/, name)
    for (const [key, value] of Object.entries(values)) {
      if (key !== 'recipient') t.ok(text.includes(value), `${name} has ${key} in the text`)
      t.ok(
        html.includes(value.replace(/&/g, '&amp;').replace(/=/g, '&#x3D;').replace(/\//g, '&#x2F;')),
        `${name} has ${key} in HTML`,
      )
    }
    t.match(html, /prefers-color-scheme: dark/)
    t.notMatch(html, /<img|<script|@import|url\(/i, 'nothing is loaded from elsewhere')
    const urls = [...html.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, url]) => url)
    t.ok(
      urls.every((url) => url?.startsWith('https:&#x2F;&#x2F;example.com')),
      'the only addresses are links',
    )
  }
})

t.test('values are escaped in HTML, and are one line everywhere', async (t) => {
  const { render } = loadTemplates()
  const values = {
    ...sampleValues.get('invitation'),
    name: 'A\r\nBcc: <b>x</b>\u2028\u0000"&',
    product: 'P\r\nX: y',
  }
  const { subject, text, html } = render('invitation', values)
  t.equal(subject, 'You are invited to P X: y')
  t.match(text, /^Hello A Bcc: <b>x<\/b> "&,\n/)
  t.match(html, 'Hello A Bcc: &lt;b&gt;x&lt;&#x2F;b&gt; &quot;&amp;,')
  t.notMatch(html, '<b>x')
})

t.test('mistakes in templates are listed with their files', async (t) => {
  const wrong = (files: Record<string, string | undefined>, message: RegExp) =>
    t.throws(() => loadTemplates([createFolder(t, files)]), { message })
  wrong({ 'password-reset.txt': undefined }, /templates\/password-reset\.txt: ENOENT/)
  wrong({ 'password-reset.html': undefined }, /templates\/password-reset\.html: ENOENT/)
  wrong({ 'invitation.txt': 'Hello' }, /templates\/invitation\.txt: the first line must be "Subject: "/)
  wrong({ 'invitation.html': '{{#name}} {{name}}' }, /templates\/invitation\.html: Unclosed section "name"/)
  wrong(
    { 'invitation.html': '{{nmae}}' },
    /templates\/invitation\.html: \{\{nmae\}\} is not known; there are product/,
  )
  wrong({ 'invitation.html': '{{#name}}{{time}}{{/name}}' }, /\{\{time\}\} is not known/)
  wrong({ 'invitation.html': '{{{name}}}' }, /\{\{\{name\}\}\} or \{\{&name\}\} would not be escaped/)
  wrong({ 'invitation.html': '{{> _head}}' }, /\{\{> _head\}\} is not known; there are _footer, _header/)
  wrong({ '_header.html': '{{link}}' }, /templates\/_header\.html: \{\{link\}\} is not known/)
  wrong({ '_header.html': '{{> _header}}' }, /Maximum call stack/)
  wrong(
    { 'invitation.txt': 'Hello', 'new-sign-in.html': '{{' },
    /invitation\.txt: .+\n.+templates\/new-sign-in\.html: /,
  )
})

t.test('the files of an application win, and it adds templates with values of its own', async (t) => {
  const own = testFolder(t)
  const files = {
    '_footer.html': '<p>Acme</p>',
    'invitation.txt': 'Subject: Welcome, {{name}}\n\n{{link}}\n',
    'receipt.txt': 'Subject: Receipt {{number}}\n\nThank you for {{thing}}.\n',
    'receipt.html': '{{> _header}}<p>{{thing}}</p>{{> _footer}}',
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(own, name), text)
  const { folder, names, render } = loadTemplates([createFolder(t, {}), own])
  t.equal(folder, own)
  t.ok(names.includes('receipt'))
  const { subject, text, html } = render('receipt', { number: '7', thing: '<tea>' })
  t.equal(subject, 'Receipt 7')
  t.equal(text, 'Thank you for <tea>.\n')
  t.match(html, '<p>&lt;tea&gt;</p><p>Acme</p>')
  const invitation = render('invitation', sampleValues.get('invitation') ?? {})
  t.equal(invitation.subject, 'Welcome, Jane Doe')
  t.match(invitation.html, '<p>Acme</p>', 'of the package, with the part of the application')
  t.throws(() => render('refund', {}), { message: `There is no template ${join(own, 'refund.txt')}` })

  writeFileSync(join(own, 'receipt.html'), '{{#thing}}')
  t.throws(() => loadTemplates([createFolder(t, {}), own]), {
    message: `Templates of mails are wrong:\n${join(own, 'receipt.html')}: Unclosed section "thing"`,
  })
})
