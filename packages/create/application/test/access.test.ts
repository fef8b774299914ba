/** Every route answers every role as the rules of `plugins` say. */
import { checkAccess, checkRowAccess } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

await checkAccess(t, buildApp)
await checkRowAccess(t, buildApp)
