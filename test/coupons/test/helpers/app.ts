/** The app of test/helpers with the coupons: the table, as drizzle-kit creates it, and the resource in the list. */
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { resources } from '../../../../src/app.ts'
import { testApp as startApp } from '../../../helpers/app.ts'
import { type Owner, runMigration, testDatabase } from '../../../helpers/database.ts'
import { coupons } from '../../drizzle/tables/coupons.ts'
import { couponsResource } from '../../plugins/resources/coupons.ts'

export async function testApp(t: Owner, settings: Record<string, string> = {}) {
  const database = await testDatabase(t)
  // Also if the resource has been added to the service.
  await database.run('drop table if exists coupons')
  const migration = await generateMigration(generateDrizzleJson({}), generateDrizzleJson({ coupons }))
  await runMigration(t, database, migration)
  const others = resources.filter(({ name }) => name !== couponsResource.name)
  return startApp(t, settings, { database, resources: [...others, couponsResource] })
}
