/** Who may do what with which rows, as access-matrix.json promises. */
import { checkAccess, checkRowAccess, loadExamples } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

const examples = await loadExamples('test')

await checkAccess(t, buildApp, { examples })
await checkRowAccess(t, buildApp, { examples })
