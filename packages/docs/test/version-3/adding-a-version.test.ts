/** The code of docs/adopters/adding-a-version.md is that of the files in test/version-3, and does what the page says. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { versions } from './versions.ts'

const read = (path: string) => readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8')

/** Returns code without indentation, empty lines and imports, whose paths differ. */
const normalize = (code: string) =>
  code
    .replaceAll(/^import .*\n/gm, '')
    .replaceAll(/\n\s*/g, '\n')
    .trim()

/** Returns the code blocks of the section whose heading ends with a file. */
function getBlocks(file: string, language: string): string[] {
  const sections = read('docs/adopters/adding-a-version.md').split('\n## ')
  const section = sections.find((part) => part.split('\n')[0]?.endsWith(`\`${file}\``)) ?? ''
  const blocks = section.matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``, 'g'))
  return [...blocks].map(([, code = '']) => code)
}

t.test('the page shows the files unchanged', async (t) => {
  for (const [shown, file, isWhole] of [
    ['plugins/v3.ts', 'packages/docs/test/version-3/v3.ts', true],
    ['plugins/versions.ts', 'packages/docs/test/version-3/versions.ts', false],
  ] as const) {
    const [block = '', ...others] = getBlocks(shown, 'ts').map(normalize)
    t.same(others, [], 'one block each')
    const code = normalize(read(file))
    t.ok(block !== '' && (isWhole ? code === block : code.includes(block)), shown)
  }
})

t.test('version 3 answers as the page says, and version 1 announces its end', async (t) => {
  const { admin } = await testApp(t, {}, { versions })
  const [inVersion1, inVersion3] = getBlocks('plugins/v3.ts', 'json').map((text) => JSON.parse(text))
  const { code, title, price_amount } = inVersion3
  const created = await admin.post('/v3/products', { code, title, price_amount })
  t.equal(created.status, 201)
  const { id, created_at, updated_at, ...fields } = created.body.data
  t.same(fields, inVersion3)
  t.same(Object.keys(fields), Object.keys(inVersion3), 'in this order')
  const { name, sku } = inVersion1
  t.match({ name, sku }, { name: title, sku: code })
  const { data } = (await admin.get(`/v2/products/${id}`)).body
  t.same(data.attributes, { ...inVersion1, created_at, updated_at }, 'version 2 has the fields of version 1')

  const { headers } = await admin.get(`/v1/products/${id}`)
  t.equal(headers.get('link'), `</v3/products/${id}>; rel="successor-version"`)
})
