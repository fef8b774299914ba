/** What the files `test/{name}.examples.ts` export and use: valid bodies for the checks of all resources. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Database } from '@resource-api/database'
import type { Param } from '@resource-api/database/client'
import type { Static, TObject } from '@sinclair/typebox'
import type { Json } from './client.ts'

/** A valid id of no row. */
export const UNKNOWN_ID = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'

/** A row that a check creates next. */
interface NextRow {
  database: Database
  /** The id of the user whose row it is, and who sends the request. */
  owner: string
  /** The body of POST, with the ids of rows that exist. */
  body: Json
}

/** @typeParam S the schema for creating the resource */
export interface Examples<S extends TObject = TObject> {
  /**
   * Returns a valid body of POST, another one for each number: unique values differ, and periods do not overlap. The
   * example id stands for a new row in a reference, and the owner may be absent.
   */
  create(n: number): Partial<Static<S>>
  /** Returns a valid body of PATCH that changes a row. Default: another text, or another number. */
  change?(n: number): Partial<Static<S>>
  /**
   * Returns the values of columns that only code of the resource sets, such as how many tickets are left, for rows that are
   * inserted without it. Default: those of the table.
   */
  columns?(body: Json): Readonly<Record<string, Param>>
  /** Inserts what must exist before the row can be created, such as the order of what is reviewed. */
  before?(row: NextRow): Promise<unknown>
}

/** The examples by the name of their resource. */
export type AllExamples = ReadonlyMap<string, Examples>

const ENDING = '.examples.ts'

/** Reads the files `{name}.examples.ts` of a folder. */
export async function loadExamples(folder: string): Promise<AllExamples> {
  const files = readdirSync(folder).filter((file) => file.endsWith(ENDING))
  const loaded = await Promise.all(
    files.map(async (file): Promise<[string, Examples]> => {
      const { default: found } = await import(pathToFileURL(join(folder, file)).href)
      return [file.slice(0, -ENDING.length), found]
    }),
  )
  return new Map(loaded)
}

const DAY_MS = 86_400_000
const START = Date.UTC(2026, 11, 1)

/** Returns the time that is some hours into the day `n` of the examples. */
export const getTime = (n: number, hours: number): string =>
  new Date(START + n * DAY_MS + hours * 3_600_000).toISOString()

/** Returns a day: the first ones of each number are a week apart. */
export const getDay = (n: number, offset: number): string => getTime(7 * n + offset, 0).slice(0, 10)
