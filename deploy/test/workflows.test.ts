/** The workflows have the form that GitHub reads, and their jobs wait for jobs that exist. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import t from 'tap'

// A package of this folder alone, which only `npm run test:deploy` installs.
const { validateWorkflow }: { validateWorkflow(text: string): { errors: unknown[] } } = createRequire(
  import.meta.url,
)('@action-validator/core')

for (const name of ['ci', 'nightly', 'release']) {
  t.test(name, async (t) => {
    const text = readFileSync(new URL(`../../.github/workflows/${name}.yml`, import.meta.url), 'utf8')
    t.same(validateWorkflow(text).errors, [])
    t.not(validateWorkflow(text.replace('runs-on', 'run-on')).errors.length, 0, 'a wrong key is found')
  })
}
