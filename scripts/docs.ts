/**
 * `npm run docs`: writes every generated part of the documentation, and prints which files have changed. The OpenAPI
 * documents and the types of the client are written by `npm run openapi`.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { updateEnvExample } from './env-example.ts'
import { sections, writeSection } from './generated-sections.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const ENV_EXAMPLE = `${root}.env.example`
const OPENAPI_FILES = ['docs/openapi/v1.json', 'docs/openapi/v2.json', 'client/src/openapi.ts']

const changed = new Set<string>()

for (const section of sections) if (await writeSection(section)) changed.add(section.file)

const example = await readFile(ENV_EXAMPLE, 'utf8')
const current = updateEnvExample(example)
if (current !== example) {
  await writeFile(ENV_EXAMPLE, current)
  changed.add('.env.example')
}

const hashFiles = () =>
  Promise.all(
    OPENAPI_FILES.map(async (file) =>
      createHash('sha256')
        .update(await readFile(root + file))
        .digest('hex'),
    ),
  )
const before = await hashFiles()
const { status } = spawnSync('npm', ['run', '--silent', 'openapi'], {
  cwd: root,
  stdio: ['ignore', 'ignore', 'inherit'],
})
if (status !== 0) throw new Error('npm run openapi has failed')
for (const [i, hash] of (await hashFiles()).entries()) {
  const file = OPENAPI_FILES[i]
  if (file !== undefined && hash !== before[i]) changed.add(file)
}

console.log(
  changed.size > 0 ? [...changed].map((file) => `Updated ${file}`).join('\n') : 'Nothing has changed',
)
