/** Migrations, their records, and what a check of the schema finds. */
export { DEFAULT_SCHEMA, getSearchPath } from '../client/schema.ts'
export { countPendingMigrations, ensureMigrated } from '../migrate.ts'
export { loadMigrations } from '../migration-files.ts'
export { getRecordTable, listRecordTables, RECORD_PREFIX } from '../migration-records.ts'
export { inspectSchema, SCHEMA_ADVICE } from '../schema-check.ts'
