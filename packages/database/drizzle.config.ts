/** Configures drizzle-kit for the migrations of the product (`npm run migrations:product`). */
import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: './packages/database/src/*-tables.ts',
  out: './packages/database/migrations',
  migrations: { prefix: 'timestamp' },
})
