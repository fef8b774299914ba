/** The app of test/helpers with the coupons: the table of the document's migration, and the resource in the list. */
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { resources } from '../../../../src/app.ts'
import { testApp as startApp } from '../../../helpers/app.ts'
import { type Owner, testDatabase } from '../../../helpers/database.ts'
import { coupons } from '../../drizzle/tables.ts'
import { couponsResource } from '../../plugins/resources/coupons.ts'

/** Returns the migration that drizzle-kit generates for the table. */
export const migration = () => generateMigration(generateDrizzleJson({}), generateDrizzleJson({ coupons }))

export async function testApp(t: Owner, settings: Record<string, string> = {}) {
  const database = await testDatabase(t)
  // Also if the resource has been added as docs/adding-a-resource.md says.
  await database.run('drop table if exists coupons')
  for (const statement of await migration()) await database.run(statement)
  const others = resources.filter(({ name }) => name !== couponsResource.name)
  return startApp(t, settings, { database, resources: [...others, couponsResource] })
}
