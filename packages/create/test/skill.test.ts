/** The examples of the skill stand in the application, whose tests run them. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const skill = readFileSync(`${root}packages/create/skills/resource-api/SKILL.md`, 'utf8')

t.test('each example is a part of the file that it names', async (t) => {
  const examples = [...skill.matchAll(/<!-- (\S+) -->\n```ts\n([\s\S]*?)^```$/gm)]
  t.equal(examples.length, 4)
  t.equal(examples.length, skill.match(/```ts/g)?.length, 'no example is without its file')
  for (const [, path = '', code = ''] of examples)
    t.ok(readFileSync(root + path, 'utf8').includes(code), path)
})
