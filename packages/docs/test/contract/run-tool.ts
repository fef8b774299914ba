/** Runs the command line tools of `packages/docs/test/contract/package.json`. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const folder = fileURLToPath(new URL('.', import.meta.url))

export interface ToolResult {
  code: number
  output: string
}

/**
 * Runs a tool with telemetry turned off.
 * @param environment variables in addition to PATH and HOME
 */
export async function runTool(
  name: string,
  args: readonly string[],
  environment: Record<string, string> = {},
): Promise<ToolResult> {
  const { PATH, HOME } = process.env
  const env = { PATH, HOME, DO_NOT_TRACK: '1', NO_COLOR: '1', REDOCLY_TELEMETRY: 'off', ...environment }
  const options = { cwd: folder, env, maxBuffer: 64 * 1024 * 1024 }
  const {
    code = 0,
    stdout,
    stderr,
  } = await promisify(execFile)(`${folder}node_modules/.bin/${name}`, args, options).catch((failed) => failed)
  return { code, output: `${stdout}${stderr}` }
}
