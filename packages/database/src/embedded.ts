/** The face of the embedded database, for tests. It loads PGlite, which a server of PostgreSQL does not. */
export { createEmbedded, openEmbedded } from './client/embedded/embedded.ts'
export { startMemory } from './client/embedded/engine.ts'
