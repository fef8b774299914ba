/** The generated parts of the pages are current. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { updateEnvExample } from '../../scripts/env-example.ts'
import { compareSection, sections } from '../../scripts/generated-sections.ts'

const getFirstDifference = (page: string, current: string) => {
  const lines = current.split('\n')
  const line = page.split('\n').findIndex((text, i) => text !== lines[i])
  return { line: line + 1, expected: lines[line] }
}

for (const section of sections) {
  t.test(`${section.file}: the section "${section.name}" is current`, async (t) => {
    const { page, current } = await compareSection(section)
    if (page === current) return t.pass(section.file)
    const { line, expected } = getFirstDifference(page, current)
    t.fail(`${section.file}:${line} should be: ${expected}. Run: npm run docs`)
  })
}

t.test('.env.example has each setting once, with its default, and no other', async (t) => {
  const example = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8')
  t.equal(example, updateEnvExample(example), '.env.example is current; if not, run: npm run docs')
})

t.test('a setting that .env.example lacks is added, one that does not exist is removed', async (t) => {
  const updated = updateEnvExample('# A group\n# PORT=1\n# NO_SUCH_SETTING=2\n')
  t.match(updated, /^# A group\n# PORT=3000\n\n/)
  t.match(updated, /\n# NODE_ENV=development\n/)
  t.notMatch(updated, /NO_SUCH_SETTING/)
})
