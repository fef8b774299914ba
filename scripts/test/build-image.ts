/**
 * Builds the stages of a Dockerfile without a container engine: the commands of each stage run, in order, in an empty
 * folder that stands for its root. An instruction or a form that is not known here is an error.
 */
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { type Owner, testFolder } from '../../packages/testing/helpers/database.ts'

export interface Stage {
  /** The folder that stands for `/`. */
  root: string
  /** The value of WORKDIR, a path in the image. */
  workdir: string
  /** The values of ARG and ENV. */
  env: NodeJS.ProcessEnv
  /** The arguments of CMD, which must be a JSON array, as in HEALTHCHECK. */
  command: string[]
  healthcheck: string[]
}

/** These change the metadata of the image and no file. USER is among them: all commands run as the user of the test. */
const METADATA = ['LABEL', 'VOLUME', 'USER', 'EXPOSE']

/** The owner of a file exists in the base image only, so that `chown` checks nothing but the file. */
const PRELUDE = 'set -e\nchown() { test -e "$2"; }\n'

/** What a command needs to reach the package registry, from this machine's cache if possible. */
const NETWORK = [
  'NODE_EXTRA_CA_CERTS',
  'HTTPS_PROXY',
  'https_proxy',
  'npm_config_registry',
  'npm_config_cache',
]

/** Returns the environment of the base image. The programs of this repository's packages are not in its PATH. */
export const readBaseEnvironment = (): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(NETWORK.map((name) => [name, process.env[name]])),
  PATH: process.env.PATH?.split(':')
    .filter((folder) => !folder.includes('node_modules'))
    .join(':'),
  HOME: process.env.HOME,
})

/** Returns the instructions without comments, each with its continued lines. */
function readInstructions(file: string): { name: string; text: string }[] {
  const lines = readFileSync(file, 'utf8')
    .replace(/^\s*#.*\n/gm, '')
    .replace(/\\\n/g, '')
  return lines
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', text = ''] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? []
      return { name, text }
    })
}

/**
 * What `.dockerignore` includes, without parts such as `packages/*\/dist`: if it begins with `*`, the files and folders that
 * it names, else all.
 */
function readContext(context: string) {
  const patterns = readFileSync(join(context, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  const excludesAll = patterns[0] === '*'
  if (excludesAll) patterns.shift()
  const isName = (pattern: string) => pattern.startsWith('!')
  const names = excludesAll
    ? patterns.filter(isName).map((pattern) => /^!([\w./-]+)$/.exec(pattern)?.[1])
    : readdirSync(context)
  const parts = patterns
    .filter((pattern) => !isName(pattern))
    .map((pattern) => new RegExp(`^${pattern.replaceAll('*', '[^/]+')}$`))
  return {
    names: names.map((name) => {
      if (name !== undefined && existsSync(join(context, name))) return name
      throw new Error(`.dockerignore names ${name}`)
    }),
    isIncluded: (path: string) => !parts.some((part) => part.test(relative(context, path))),
  }
}

/** Copies as COPY does: the content of a folder, or a file, into the folder if the target ends with a slash. */
function copy(source: string, target: string, filter = (_path: string) => true) {
  const isIntoFolder = target.endsWith('/') && !statSync(source).isDirectory()
  cpSync(source, isIntoFolder ? join(target, basename(source)) : target, {
    recursive: true,
    verbatimSymlinks: true,
    filter,
  })
}

/** Returns the path in a stage's folder. */
const locate = ({ root, workdir }: Stage, path: string) =>
  join(root, resolve(workdir, path)) + (path.endsWith('/') ? '/' : '')

/** Runs a command in a stage. Absolute paths are those of the stage. */
async function run(stage: Stage, command: string) {
  const script = command.replace(/(?<=\s)\/(?=\w)/g, `${stage.root}/`)
  await promisify(execFile)('sh', ['-c', PRELUDE + script], {
    cwd: locate(stage, '.'),
    env: { ...readBaseEnvironment(), npm_config_prefer_offline: 'true', ...stage.env },
    maxBuffer: 1e8,
  })
}

/** Runs COPY: sources of the context, or of another stage with `--from`. */
function copyInto(
  stage: Stage,
  words: readonly string[],
  stages: ReadonlyMap<string, Stage>,
  context: string,
) {
  const [, from] = /^--from=(\w+)$/.exec(words[0] ?? '') ?? []
  const origin = stages.get(from ?? '')
  if (from !== undefined && !origin) throw new Error(`There is no stage ${from}`)
  const paths = words.slice(from === undefined ? 0 : 1, -1)
  const target = locate(stage, words.at(-1) ?? '')
  const { names, isIncluded } = readContext(context)
  for (const path of paths) {
    if (origin) copy(locate(origin, path), target)
    else if (path === '.') for (const name of names) copy(join(context, name), join(target, name), isIncluded)
    else if (names.includes(path.split('/')[0] ?? '')) copy(join(context, path), target, isIncluded)
    else throw new Error(`.dockerignore excludes ${path}`)
  }
}

/**
 * Builds all stages of the Dockerfile in a folder.
 * @param args values of ARG, as by --build-arg
 * @returns the last stage
 * @throws if a command fails, with its output
 */
export async function buildImage(
  t: Owner,
  context: string,
  args: Readonly<Record<string, string>> = {},
): Promise<Stage> {
  const stages = new Map<string, Stage>()
  let stage: Stage | undefined
  for (const { name, text } of readInstructions(join(context, 'Dockerfile'))) {
    const words = text.trim().split(/\s+/)
    if (name === 'FROM') {
      const base = stages.get(words[0] ?? '')
      const root = testFolder(t)
      if (base) cpSync(base.root, root, { recursive: true })
      stage = { workdir: '/', command: [], healthcheck: [], ...base, root, env: { ...base?.env } }
      stages.set(words[2] ?? 'last', stage)
      continue
    }
    if (!stage) throw new Error(`${name} is in no stage`)
    switch (name) {
      case 'WORKDIR':
        stage.workdir = resolve(stage.workdir, text)
        mkdirSync(locate(stage, '.'), { recursive: true })
        break
      case 'ARG':
      case 'ENV':
        for (const pair of words) {
          const [, key = '', value = ''] = /^(\w+)=([^"'$]*)$/.exec(pair) ?? []
          if (key === '') throw new Error(`${name} has the form NAME=value: ${text}`)
          stage.env[key] = (name === 'ARG' ? args[key] : undefined) ?? value
        }
        break
      case 'COPY':
        copyInto(stage, words, stages, context)
        break
      case 'RUN':
        await run(stage, text)
        break
      case 'HEALTHCHECK':
        stage.healthcheck = JSON.parse(text.slice(text.indexOf('CMD') + 'CMD'.length))
        break
      case 'CMD':
        stage.command = JSON.parse(text)
        break
      default:
        if (!METADATA.includes(name)) throw new Error(`The instruction ${name} is not known`)
    }
  }
  if (!stage) throw new Error('The Dockerfile has no stage')
  return stage
}
