/** Configures drizzle-kit for the migrations of the application's tables (`npm run migrations`). */
import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: './drizzle/tables/*.ts',
  out: './drizzle/migrations',
  migrations: { prefix: 'timestamp' },
})
