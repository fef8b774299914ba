/**
 * `resource-api upgrade`: after `npm update`, sets the versions of what the application and the packages both import, such as
 * Fastify, to those of the packages: of two versions, npm would install both, whose types differ.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from './usage-error.ts'

interface Manifest {
  dependencies?: Record<string, string>
}

const readManifest = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))

/** @throws UsageError if the folder has no application */
export function upgrade(args: readonly string[], root: string): void {
  if (args.length > 0) throw new UsageError('Usage: npx resource-api upgrade, without arguments')
  const scope = join(root, 'node_modules/@resource-api')
  if (!existsSync(join(root, 'package.json')) || !existsSync(scope))
    throw new UsageError(
      `${root} has no package.json with installed packages: run npm install in the folder of an application`,
    )
  const wanted = Object.assign(
    {},
    ...readdirSync(scope).map((name) => readManifest(join(scope, name)).dependencies),
  )
  const manifest = readManifest(root)
  const { dependencies = {} } = manifest
  const changed = Object.keys(dependencies).filter(
    (name) => !name.startsWith('@resource-api/') && name in wanted && wanted[name] !== dependencies[name],
  )
  for (const name of changed) dependencies[name] = wanted[name]
  if (changed.length > 0) writeFileSync(join(root, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  // npm install would refuse another version of Drizzle (ERESOLVE): it looks for an optional peer of Drizzle in a tree that
  // has another React, of tap. npm update does not.
  console.log(
    changed.length === 0
      ? 'package.json has the versions of the packages'
      : `package.json: the versions of ${changed.join(', ')} are those of the packages. Next: npm update`,
  )
}
