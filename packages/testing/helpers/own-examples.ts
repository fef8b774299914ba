/** Reads the examples of the resources that have a file `test/{name}.examples.ts`. */
import { readdirSync } from 'node:fs'
import type { Examples } from './examples.ts'

const folder = new URL('../../../test/', import.meta.url)
const ENDING = '.examples.ts'

/** The examples by the name of their resource. */
export const examples: ReadonlyMap<string, Examples> = new Map(
  await Promise.all(
    readdirSync(folder)
      .filter((file) => file.endsWith(ENDING))
      .map(async (file): Promise<[string, Examples]> => {
        const { default: found } = await import(new URL(file, folder).href)
        return [file.slice(0, -ENDING.length), found]
      }),
  ),
)
