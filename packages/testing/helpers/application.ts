/** Declares another application in a process of its own. */

const toModule = (code: string): string => `data:text/javascript,${encodeURIComponent(code)}`

/**
 * Returns the flags of a process of Node.js in which `src/application.ts` is another one.
 * @param options JavaScript
 * @param runsBuild whether the process runs the build or the sources
 */
export function declareApplication(options: string, runsBuild = process.env.TEST_BUILD === '1'): string[] {
  const face = runsBuild ? 'dist/application.js' : 'src/application.ts'
  const url = new URL(`../../database/${face}`, import.meta.url).href
  const declared = `import { defineApplication } from ${JSON.stringify(url)}
    defineApplication({ name: 'tickets', roles: ['member', 'admin'], ${options} })`
  const hooks = `export async function resolve(specifier, context, next) {
    const resolved = await next(specifier, context)
    if (!/\\/src\\/application\\.[jt]s$/.test(resolved.url)) return resolved
    if (resolved.url.includes('/packages/')) return resolved
    return { url: ${JSON.stringify(toModule(declared))}, format: 'module', shortCircuit: true }
  }`
  const registered = `import { register } from 'node:module'; register(${JSON.stringify(toModule(hooks))})`
  return [`--import=${toModule(registered)}`]
}
