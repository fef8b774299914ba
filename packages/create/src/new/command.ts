/**
 * `resource-api new reviews`: adds a resource to the application in the current folder. A process of its own, which loads the
 * TypeScript of the application.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { UsageError } from '../usage-error.ts'

const root = process.cwd()

try {
  // Declares the roles and the name, before the packages that read them are loaded.
  const declaration = join(root, 'src/application.ts')
  if (existsSync(declaration)) await import(pathToFileURL(declaration).href)
  const { addResource } = await import('./add-resource.ts')
  await addResource(process.argv.slice(2), root)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
