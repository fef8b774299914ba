/** Runs the command line tools of `test/contract/package.json`. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const folder = fileURLToPath(new URL('.', import.meta.url))

export interface ToolResult {
  code: number
  output: string
}

interface ToolOptions {
  /** Variables in addition to PATH and HOME. */
  environment?: Record<string, string>
  cwd?: string
}

/** Runs a tool with telemetry turned off. */
export async function runTool(
  name: string,
  args: readonly string[],
  { environment = {}, cwd = folder }: ToolOptions = {},
): Promise<ToolResult> {
  const { PATH, HOME } = process.env
  const env = { PATH, HOME, DO_NOT_TRACK: '1', NO_COLOR: '1', REDOCLY_TELEMETRY: 'off', ...environment }
  const options = { cwd, env, maxBuffer: 64 * 1024 * 1024 }
  const {
    code = 0,
    stdout,
    stderr,
  } = await promisify(execFile)(`${folder}node_modules/.bin/${name}`, args, options).catch((failed) => failed)
  return { code, output: `${stdout}${stderr}` }
}
