/** Reads docs/access-matrix.json and prints it as the tables of docs/permissions.md. */
import { readFileSync } from 'node:fs'
import type { Role, Verb } from '../../plugins/access/index.ts'

export const roles = ['member', 'manager', 'admin'] as const

export type Cell = 'all' | 'own' | 'none' | 'own or published' | 'active'

/** The rows that a role may access, by collection and verb. */
type Matrix = Record<string, Partial<Record<Verb, Record<Role, Cell>>>>

const file = new URL('../../docs/access-matrix.json', import.meta.url)
export const matrix: Matrix = JSON.parse(readFileSync(file, 'utf8'))

/** Returns whether a cell of the matrix allows a row. */
export function allowsRow(cell: Cell, { own, status }: { own: boolean; status?: unknown }): boolean {
  if (cell === 'active') return status === 'active'
  return cell === 'all' || (own && cell !== 'none') || (cell === 'own or published' && status === 'published')
}

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

/** Returns a Markdown table for each collection, with a row for each verb. */
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
