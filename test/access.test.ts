/** Who may do what with which rows, as access-matrix.json promises. */
import { readFileSync } from 'node:fs'
import { checkAccess, checkRowAccess } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

const promises = JSON.parse(readFileSync('test/access-matrix.json', 'utf8'))

await checkAccess(t, buildApp, { promises })
await checkRowAccess(t, buildApp, { promises })
