/** Renders the Helm chart with Helm, or without it with a Go program (`render-chart.go`) that uses its template functions. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import type { Owner } from '../../packages/testing/helpers/database.ts'

export const chart = fileURLToPath(new URL('../helm/resource-api', import.meta.url))

/** Values of the chart, or a part of them. */
export interface Values {
  [name: string]: Values | string | number | boolean | unknown[]
}

export interface Rendered {
  /** The files of the chart that are not empty, by name. Helm returns one text for all of them. */
  files: Record<string, string>
  /** Why the chart could not be rendered. */
  error: string | undefined
}

export const readValues = (): Values => parse(readFileSync(join(chart, 'values.yaml'), 'utf8'))

const isValues = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the values with changes, merged as Helm merges them. */
export function mergeValues(values: Values, changes: Values): Values {
  const entries = Object.entries(changes).map(([name, change]) => {
    const value = values[name]
    return [name, isValues(value) && isValues(change) ? mergeValues(value, change) : change] as const
  })
  return { ...values, ...Object.fromEntries(entries) }
}

export const hasHelm = spawnSync('helm', ['version']).status === 0

function renderWithHelm(changes: Values): Rendered {
  const input = JSON.stringify(changes)
  const { status, stdout, stderr } = spawnSync('helm', ['template', 'api', chart, '--values', '-'], {
    input,
    encoding: 'utf8',
  })
  return status === 0 ? { files: { all: stdout }, error: undefined } : { files: {}, error: stderr }
}

/** Compiles the Go program. Debian's packages golang-go and golang-github-masterminds-sprig-dev are enough, without a network. */
function compileRenderer(folder: string): string {
  const program = join(folder, 'render-chart')
  const source = fileURLToPath(new URL('render-chart.go', import.meta.url))
  const env = {
    ...process.env,
    GO111MODULE: 'off',
    GOPATH: '/usr/share/gocode',
    GOCACHE: join(folder, 'cache'),
  }
  execFileSync('go', ['build', '-o', program, source], { env })
  return program
}

/** Creates a function that renders the chart with changed values. */
export function createChartRenderer(t: Owner): (changes: Values) => Rendered {
  if (hasHelm) return renderWithHelm
  const folder = mkdtempSync(join(tmpdir(), 'render-chart-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const program = compileRenderer(folder)
  const { name, version, appVersion } = parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8'))
  return (changes) => {
    const context = {
      Release: { Name: 'api', Namespace: 'default', Service: 'Helm' },
      Chart: { Name: name, Version: version, AppVersion: appVersion },
      Values: mergeValues(readValues(), changes),
    }
    const output = execFileSync(program, {
      input: JSON.stringify({ folder: chart, context }),
      encoding: 'utf8',
    })
    const { error, ...files }: Record<string, string> = JSON.parse(output)
    delete files['NOTES.txt']
    return { files, error }
  }
}

/** Writes a text to a file of a folder and returns its path. */
export function writeText(folder: string, name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
