/** Loads what needs an optional peer dependency of a package, and says what to install if it is missing. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { getErrorCode } from './error-code.ts'

interface Manifest {
  peerDependencies: Record<string, string>
}

/**
 * @param load imports a module, which imports the peer dependencies
 * @param purpose what they are needed for, such as `MCP=true`
 * @param manifest the URL of the package.json that names them
 * @throws Error in one line, with the command that installs all of them
 */
export async function loadOptional<T>(load: () => Promise<T>, purpose: string, manifest: string): Promise<T> {
  try {
    return await load()
  } catch (error) {
    if (getErrorCode(error) !== 'ERR_MODULE_NOT_FOUND' || !(error instanceof Error)) throw error
    // It is the package's own.
    const { peerDependencies }: Manifest = JSON.parse(readFileSync(fileURLToPath(manifest), 'utf8'))
    if (!Object.keys(peerDependencies).some((name) => error.message.includes(`'${name}'`))) throw error
    const packages = Object.entries(peerDependencies).map((each) => each.join('@'))
    throw new Error(
      `${purpose} needs packages that are not installed. Install them: npm install --save-prod ${packages.join(' ')}`,
    )
  }
}
