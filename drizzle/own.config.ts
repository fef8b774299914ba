/** Configures drizzle-kit for the migrations of one's own tables (`npm run migrations`). */
import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  // The columns are no tables: drizzle-kit requires a file, also where no resource is left.
  schema: ['./packages/database/src/columns.ts', './drizzle/tables/*.ts'],
  out: './drizzle/own-migrations',
  migrations: { prefix: 'timestamp' },
})
