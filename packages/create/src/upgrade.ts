/**
 * `resource-api upgrade`: after `npm update`, changes the code of the application where a newer package requires it. Such a
 * package has a file `codemods/{version}.js` for the version from which the change is required.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { UsageError } from './usage-error.ts'

/** What a file in `codemods` exports as its default. */
export interface Codemod {
  /** What it does, in one line. */
  description: string
  /** Returns the text of a file as it has to be; a second run changes nothing. @param path relative to the application */
  change(path: string, text: string): string
}

interface Manifest {
  dependencies?: Record<string, string>
  /** The version of the packages that the code is written for. */
  resourceApi?: { version: string }
}

const readManifest = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))

const FOLDERS = ['src', 'plugins', 'schemas', 'drizzle', 'test']

/** Compares two versions without what follows a hyphen. @returns a negative number if the first one is older */
function compareVersions(one: string, other: string): number {
  const [a, b] = [one, other].map((version) => version.split('-', 1)[0]?.split('.').map(Number) ?? [])
  const place = [0, 1, 2].find((i) => a?.[i] !== b?.[i]) ?? 0
  return (a?.[place] ?? 0) - (b?.[place] ?? 0)
}

/** Returns the codemods of the installed packages for the versions after one, in their order. */
function listCodemods(root: string, after: string) {
  const scope = join(root, 'node_modules/@resource-api')
  return readdirSync(scope)
    .map((name) => join(scope, name, 'codemods'))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      readdirSync(folder).map((file) => ({ path: join(folder, file), version: file.replace(/\.js$/, '') })),
    )
    .filter(({ path, version }) => path.endsWith('.js') && compareVersions(version, after) > 0)
    .sort((a, b) => compareVersions(a.version, b.version))
}

/**
 * Sets the versions of what the application and the packages both import, such as Fastify, to those of the packages: of two
 * versions, npm would install both, whose types differ.
 * @returns the names that have changed
 */
function alignDependencies(root: string, { dependencies = {} }: Manifest): string[] {
  const scope = join(root, 'node_modules/@resource-api')
  const wanted = Object.assign(
    {},
    ...readdirSync(scope).map((name) => readManifest(join(scope, name)).dependencies),
  )
  const changed = Object.keys(dependencies).filter(
    (name) => !name.startsWith('@resource-api/') && name in wanted && wanted[name] !== dependencies[name],
  )
  for (const name of changed) dependencies[name] = wanted[name]
  return changed
}

const listSources = (root: string): string[] =>
  FOLDERS.filter((folder) => existsSync(join(root, folder))).flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  )

/** @throws UsageError if the folder has no application */
export async function upgrade(args: readonly string[], root: string): Promise<void> {
  if (args.length > 0) throw new UsageError('Usage: npx resource-api upgrade, without arguments')
  const file = join(root, 'package.json')
  const installed = join(root, 'node_modules/@resource-api/http/package.json')
  if (!existsSync(file) || !existsSync(installed))
    throw new UsageError(
      `${root} has no package.json with installed packages: run npm install in the folder of an application`,
    )
  const manifest = readManifest(root)
  const { version }: { version: string } = JSON.parse(readFileSync(installed, 'utf8'))
  const before = manifest.resourceApi?.version ?? '0.0.0'
  for (const { path, version: since } of listCodemods(root, before)) {
    const { default: codemod }: { default: Codemod } = await import(pathToFileURL(path).href)
    console.log(`${since}: ${codemod.description}`)
    for (const source of listSources(root)) {
      const text = readFileSync(join(root, source), 'utf8')
      const changed = codemod.change(source, text)
      if (changed === text) continue
      writeFileSync(join(root, source), changed)
      console.log(`  ${source}`)
    }
  }
  const aligned = alignDependencies(root, manifest)
  writeFileSync(file, `${JSON.stringify({ ...manifest, resourceApi: { version } }, null, 2)}\n`)
  if (aligned.length > 0)
    console.log(`package.json: the versions of ${aligned.join(', ')} are those of the packages`)
  // npm install would refuse another version of Drizzle (ERESOLVE): it looks for an optional peer of Drizzle in a tree that
  // has another React, of tap. npm update does not.
  const install = aligned.length > 0 ? 'npm update && ' : ''
  console.log(`The code is that of ${version}. Next: ${install}npm run typecheck && npm test`)
}
