/** The house's own helper, with the coupons in: their table by the migration of the document, their resource in the list. */
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { resources } from '../../../../src/app.ts'
import { testApp as houseApp } from '../../../helpers/app.ts'
import { type Owner, testDatabase } from '../../../helpers/database.ts'
import { coupons } from '../../drizzle/tables.ts'
import { couponsResource } from '../../plugins/resources/coupons.ts'

/** What drizzle-kit makes of the new table. */
export const migration = () => generateMigration(generateDrizzleJson({}), generateDrizzleJson({ coupons }))

export async function testApp(t: Owner, settings: Record<string, string> = {}) {
  const database = await testDatabase(t)
  for (const statement of await migration()) await database.run(statement)
  return houseApp(t, settings, { database, resources: [...resources, couponsResource] })
}
