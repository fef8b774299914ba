/** Reads the examples of the resources that have a file `test/resources/{name}.examples.ts`. */
import { readdirSync } from 'node:fs'
import { usesFixtures } from '../fixtures/register.ts'
import type { Examples } from './examples.ts'

const folder = new URL('../resources/', import.meta.url)
const ENDING = '.examples.ts'

/** The examples by the name of their resource; none where the app has the fixtures. */
export const examples: ReadonlyMap<string, Examples> = new Map(
  await Promise.all(
    readdirSync(folder)
      .filter((file) => !usesFixtures && file.endsWith(ENDING))
      .map(async (file): Promise<[string, Examples]> => {
        const { default: found } = await import(new URL(file, folder).href)
        return [file.slice(0, -ENDING.length), found]
      }),
  ),
)
