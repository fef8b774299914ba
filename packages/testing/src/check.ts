/** What all checks have in common. */
import type { AccessMatrix } from '@resource-api/resources/access-matrix'
import { getTableName } from 'drizzle-orm'
import { type BuildApp, type TestApp, type TestOverrides, testApp } from './app.ts'
import { type Definitions, readDefinitions, toDefinition } from './definitions.ts'
import type { AllExamples } from './examples.ts'
import type { Owner } from './templates.ts'

/** The part of tap's `t` that the checks use. */
export interface CheckTest extends Owner {
  test(
    name: string,
    options: { skip: string | false },
    run: (t: CheckTest) => Promise<void>,
  ): PromiseLike<unknown>
  ok(value: unknown, ...message: [] | [string]): boolean
  same(found: unknown, wanted: unknown, ...message: [] | [string]): boolean
}

export interface CheckOptions<O extends TestOverrides> {
  /** Environment variables. */
  settings?: Readonly<Record<string, string>>
  /** Further arguments of `buildApp`. */
  overrides?: O
  /** Valid bodies of resources with rules of their own, and what must exist before their rows. */
  examples?: AllExamples
  /** Resources that are left out, each with the reason. */
  except?: Readonly<Record<string, string>>
}

export interface AccessOptions<O extends TestOverrides> extends CheckOptions<O> {
  /** What the application must grant. Default: test/access-matrix.json. */
  promises?: AccessMatrix
}

export interface CheckedApp extends TestApp {
  definitions: Definitions
  examples: AllExamples
  /** Returns why a resource is left out, or false. */
  getReason(name: string): string | false
}

/** Puts a table in the place of each view: checks insert rows, and a view has only those that follow from other tables. */
async function replaceViews({ app, database }: TestApp): Promise<void> {
  for (const { isView, table } of app.resources) {
    if (!isView) continue
    const name = getTableName(table)
    await database.run(`alter table "${name}" rename to "${name}_view"`)
    await database.run(`create table "${name}" as select * from "${name}_view" with no data`)
    for (const column of ['created_at', 'updated_at'])
      await database.run(`alter table "${name}" alter ${column} set default now()`)
  }
}

/** Puts the views back: they have the rows that follow from those of the tables. */
export async function restoreViews({ app, database }: Pick<TestApp, 'app' | 'database'>): Promise<void> {
  for (const { isView, table } of app.resources) {
    if (!isView) continue
    const name = getTableName(table)
    await database.run(`drop table "${name}"`)
    await database.run(`alter table "${name}_view" rename to "${name}"`)
  }
}

/** Starts the application that is checked. */
export async function startChecked<O extends TestOverrides>(
  t: CheckTest,
  buildApp: BuildApp<O>,
  { settings, overrides, examples = new Map(), except = {} }: CheckOptions<O>,
  promises?: AccessMatrix,
): Promise<CheckedApp> {
  const api = await testApp(t, buildApp, settings, overrides)
  await replaceViews(api)
  const definitions = readDefinitions(api.app.resources.map(toDefinition), promises)
  t.same(
    [...Object.keys(except), ...examples.keys()].filter((name) => !definitions.isRegistered(name)),
    [],
    'options name resources of the application',
  )
  return { ...api, definitions, examples, getReason: (name) => except[name] ?? false }
}
