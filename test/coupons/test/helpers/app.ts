/** Starts the test app with coupons: creates their table by the migration of the document, and registers the resource. */
import { generateDrizzleJson, generateMigration } from 'drizzle-kit/api'
import { resources } from '../../../../src/app.ts'
import { testApp as createTestApp } from '../../../helpers/app.ts'
import { type Owner, testDatabase } from '../../../helpers/database.ts'
import { coupons } from '../../drizzle/tables.ts'
import { couponsResource } from '../../plugins/resources/coupons.ts'

/** Returns the statements that drizzle-kit generates for the new table. */
export const generateCouponMigration = () =>
  generateMigration(generateDrizzleJson({}), generateDrizzleJson({ coupons }))

export async function testApp(t: Owner, settings: Record<string, string> = {}) {
  const database = await testDatabase(t)
  for (const statement of await generateCouponMigration()) await database.run(statement)
  return createTestApp(t, settings, { database, resources: [...resources, couponsResource] })
}
