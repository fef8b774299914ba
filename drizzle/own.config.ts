/** Configures drizzle-kit for the migrations of one's own tables (`npm run migrations`). */
import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: './drizzle/tables/*.ts',
  out: './drizzle/own-migrations',
  migrations: { prefix: 'timestamp' },
})
