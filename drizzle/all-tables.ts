/** All tables and sequences of the service: what the migrations create and the schema check expects. */
export * from './credential-tables.ts'
export * from './event-tables.ts'
export * from './idempotency-tables.ts'
export * from './tables.ts'
