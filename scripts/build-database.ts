/** Adds the files of a new embedded database to the build, unless it has them. It takes 3 s. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEmbedded } from '../packages/database/src/client/embedded/embedded.ts'
import { getTemplateFile, packTemplate } from '../packages/database/src/client/embedded/template.ts'

/** The compiled module, which reads the file at run time. */
const compiledModule = new URL('../packages/database/dist/client/embedded/template.js', import.meta.url)

const file = getTemplateFile(compiledModule.href)
if (!existsSync(file)) {
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-build-'))
  try {
    const database = await openEmbedded({ dataDir: folder })
    await database.close()
    packTemplate(join(folder, 'postgres'), file)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
