/** Test files await nothing between their tests: the root test may end by then, and the later tests may not run. */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

/** Returns the statements of a file that await after its first test, or before a test in the same loop. */
function findAwaits(text: string): string[] {
  const found: string[] = []
  let [hasTest, isInLoop, inLoop] = [false, false, [] as string[]]
  for (const line of text.split('\n')) {
    if (/^[^\s}]/.test(line)) [isInLoop, inLoop] = [line.startsWith('for '), []]
    if (!/^\S/.test(line) && !(isInLoop && /^ {2}\S/.test(line))) continue
    if (/^\s*(?:t\.)?test\(/.test(line)) {
      found.push(...inLoop.splice(0))
      hasTest = true
    } else if (/^(?!\s*[/*]|.*\basync\b).*\bawait\b/.test(line)) (hasTest ? found : inLoop).push(line)
  }
  return found
}

t.test('no test file awaits between its tests', async (t) => {
  const folder = new URL('../', import.meta.url)
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  for (const name of names.filter((each) => each.endsWith('.test.ts'))) {
    t.same(findAwaits(readFileSync(new URL(name, folder), 'utf8')), [], name)
  }
  t.same(findAwaits("t.test('a')\nconst b = await c()"), ['const b = await c()'])
  t.same(findAwaits("for (;;) {\n  await b()\n  t.test('a')\n}"), ['  await b()'])
})
