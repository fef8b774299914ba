/** docs/access-matrix.json: as tests walk it, and as docs/permissions.md prints it. */
import { readFileSync } from 'node:fs'
import type { Role, Verb } from '../../plugins/access/index.ts'

export const roles = ['member', 'manager', 'admin'] as const

export type Cell = 'all' | 'own' | 'none' | 'own or published' | 'active'

/** Which rows: of a collection, for a verb, to a role. */
type Matrix = Record<string, Partial<Record<Verb, Record<Role, Cell>>>>

const file = new URL('../../docs/access-matrix.json', import.meta.url)
export const matrix: Matrix = JSON.parse(readFileSync(file, 'utf8'))

/** Whether a cell lets a row through. */
export function allowsRow(cell: Cell, { own, status }: { own: boolean; status?: unknown }): boolean {
  if (cell === 'active') return status === 'active'
  return cell === 'all' || (own && cell !== 'none') || (cell === 'own or published' && status === 'published')
}

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

/** A table for each collection: its verbs by the roles. */
export function formatMatrixTables(): string {
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
