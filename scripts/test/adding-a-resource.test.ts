/** The code of docs/adopters/adding-a-resource.md is what its command writes, and what stands in tested files. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { renderGuide } from '../new/guide.ts'

/** The files of which the guide shows parts. */
const EXCERPTED = /^packages\/resources\/test\//

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

t.test('the document shows the code unchanged', async (t) => {
  const guide = read('docs/adopters/adding-a-resource.md')
  const blocks = [...guide.matchAll(/<!-- (\S+) -->\n```ts\n([\s\S]*?)^```$/gm)]
  const excerpts = blocks.filter(([, path = '']) => EXCERPTED.test(path))
  t.equal(blocks.length - excerpts.length, 3, 'a block for the schema, the table and the definition')
  t.equal(renderGuide(guide), guide, 'the command writes other code; npm run new:guide renders it')
  t.equal(excerpts.length, 1)
  for (const [, path = '', code = ''] of excerpts) t.ok(read(path).includes(code), path)
})
