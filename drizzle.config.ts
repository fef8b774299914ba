/** Configures drizzle-kit for the tables of the application (`npm run migrations`, `npx drizzle-kit push`). */
import { drizzleConfig } from '@resource-api/database/drizzle-config'
import { defineConfig } from 'drizzle-kit'

export default defineConfig(drizzleConfig({ tables: './drizzle/tables', migrations: './drizzle/migrations' }))
