/** Who may do what with which rows, as access-matrix.json promises. */
import { readFileSync } from 'node:fs'
import { checkAccess, checkRowAccess, loadExamples } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

const promises = JSON.parse(readFileSync('test/access-matrix.json', 'utf8'))
const examples = await loadExamples('test')

await checkAccess(t, buildApp, { promises, examples })
await checkRowAccess(t, buildApp, { promises, examples })
