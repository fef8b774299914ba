/**
 * `npm run bench:seed -- [--users N] [--seed N] [--until DATE]`: fills the database of the settings. The same options
 * write the same rows, dated within the two years before `--until`. From 20,000 users on, empty tables are filled in one
 * transaction that locks them. No server should use the database.
 */
import { parseArgs } from 'node:util'
import { readConfig } from '@resource-api/http/config'
import { runSeed } from './run-seed.ts'

const { values } = parseArgs({
  options: {
    users: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '42' },
    until: { type: 'string', default: new Date().toISOString().slice(0, 10) },
  },
})
const context = { users: Number(values.users), seed: Number(values.seed), until: Date.parse(values.until) }
if (!Object.values(context).every(Number.isSafeInteger) || context.users < 1)
  throw new Error('--users and --seed must be whole numbers, and --until a date such as 2026-11-21')
console.log(await runSeed(readConfig(), context))
