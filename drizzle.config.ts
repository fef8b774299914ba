/** Configures drizzle-kit, which generates migrations from the tables (`npm run migrations`). */
import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: './drizzle/all-tables.ts',
  out: './drizzle/migrations',
})
