/**
 * `npm run docs`: writes every generated part of the documentation, the OpenAPI documents and the types of the client, and
 * prints which files have changed.
 */
import '../src/application.ts'
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { updateCommandHelp } from './command-help.ts'
import { updateEnvExample } from './env-example.ts'
import { sections, writeSection } from './generated-sections.ts'
import { writeDocuments } from './openapi.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const OPENAPI_FILES = [
  'docs/openapi/v1.json',
  'docs/openapi/v2.json',
  'packages/client/src/openapi.ts',
  'packages/client/src/own-collections.ts',
]

const changed = new Set<string>()

for (const section of sections) if (await writeSection(section)) changed.add(section.file)

/** Updates a whole file. */
async function updateFile(file: string, update: (text: string) => string | Promise<string>) {
  const text = await readFile(root + file, 'utf8')
  const current = await update(text)
  if (current === text) return
  await writeFile(root + file, current)
  changed.add(file)
}

await updateFile('.env.example', updateEnvExample)
await updateFile('docs/operators/command-line.md', updateCommandHelp)

const hashFiles = () =>
  Promise.all(
    OPENAPI_FILES.map(async (file) =>
      createHash('sha256')
        .update(await readFile(root + file))
        .digest('hex'),
    ),
  )
const before = await hashFiles()
await writeDocuments()
for (const [i, hash] of (await hashFiles()).entries()) {
  const file = OPENAPI_FILES[i]
  if (file !== undefined && hash !== before[i]) changed.add(file)
}

console.log(
  changed.size > 0 ? [...changed].map((file) => `Updated ${file}`).join('\n') : 'Nothing has changed',
)
