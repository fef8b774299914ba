/** `access`: compares what the definitions grant with what test/access-matrix.json promises. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Command } from '@commander-js/extra-typings'
import {
  buildAccessMatrix,
  compareMatrices,
  formatDifference,
  formatMatrix,
  locateRule,
  MATRIX_FILE,
  nameRule,
  readMatrix,
  WRITE_COMMAND,
} from '@resource-api/resources/access-matrix'
import { type BuildApp, buildDocumentApp } from './openapi.ts'

/** @param load loads the service, which no other command needs */
export const createAccessCommand = (load: () => Promise<BuildApp>) =>
  new Command('access')
    .description('Compare who may do what with the promises in test/access-matrix.json')
    .option('--write', 'Update the file')
    .addHelpText(
      'after',
      `
Prints each rule that differs, with its file and line: - what the file promises, + what the definitions grant. It needs no
database and no server. The exit code is 1 if there is a difference that was not written.`,
    )
    .action(async ({ write = false }) => {
      const app = await buildDocumentApp(await load())
      try {
        await app.ready()
        const granted = buildAccessMatrix(app)
        const promised = readMatrix()
        const differences = compareMatrices(granted, promised ?? {}).filter(({ isSame }) => !isSame)
        for (const each of differences) {
          console.log(`${locateRule(each.path, app.resources)}: ${nameRule(each.path)}`)
          for (const line of formatDifference(each)) console.log(`  ${line}`)
        }
        if (write && (differences.length > 0 || !promised)) {
          mkdirSync(dirname(MATRIX_FILE), { recursive: true })
          writeFileSync(MATRIX_FILE, formatMatrix(granted))
          console.log(`Wrote ${MATRIX_FILE}`)
        } else if (!promised) throw new Error(`There is no ${MATRIX_FILE}; ${WRITE_COMMAND} writes it`)
        else if (differences.length > 0) {
          const rules = differences.length === 1 ? '1 rule differs' : `${differences.length} rules differ`
          throw new Error(`${rules} from ${MATRIX_FILE}; if all are meant, ${WRITE_COMMAND} updates it`)
        } else console.log(`${MATRIX_FILE} is what the definitions grant`)
      } finally {
        await app.close()
      }
    })
