/** Configures drizzle-kit for the migrations of the product (`npm run migrations:product`). */
import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: './drizzle/*-tables.ts',
  out: './drizzle/migrations',
  migrations: { prefix: 'timestamp' },
})
