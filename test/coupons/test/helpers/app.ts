/** The app of test/helpers with the coupons: the table, as drizzle-kit creates it, and the resource in the list. */
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { resources } from '../../../../src/app.ts'
import { testApp as startApp } from '../../../helpers/app.ts'
import { type Owner, testDatabase } from '../../../helpers/database.ts'
import { coupons } from '../../drizzle/tables.ts'
import { couponsResource } from '../../plugins/resources/coupons.ts'

export async function testApp(t: Owner, settings: Record<string, string> = {}) {
  const database = await testDatabase(t)
  const migration = await generateMigration(generateDrizzleJson({}), generateDrizzleJson({ coupons }))
  for (const statement of migration) await database.run(statement)
  return startApp(t, settings, { database, resources: [...resources, couponsResource] })
}
