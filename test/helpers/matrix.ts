/** docs/access-matrix.json as docs/permissions.md prints it. */
import { readFileSync } from 'node:fs'

const roles = ['member', 'manager', 'admin'] as const

/** Which rows: of a collection, for a verb, to a role. */
type Matrix = Record<string, Record<string, Record<(typeof roles)[number], string>>>

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

/** A table for each collection: its verbs by the roles. */
export function matrixTables(): string {
  const file = new URL('../../docs/access-matrix.json', import.meta.url)
  const matrix: Matrix = JSON.parse(readFileSync(file, 'utf8'))
  const head = [row(['', ...roles]), row(['', ...roles].map(() => '---'))]
  return Object.entries(matrix)
    .map(([collection, verbs]) => {
      const rows = Object.entries(verbs).map(([verb, cells]) =>
        row([verb, ...roles.map((role) => cells[role])]),
      )
      return [`### ${collection}`, '', ...head, ...rows].join('\n')
    })
    .join('\n\n')
}
