/** The commands of `src/own.ts` run, are listed and are documented as those of the product. */
import { readFileSync } from 'node:fs'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { updateCommandHelp } from '../../../scripts/command-help.ts'
import { defineOwn } from '../../events/src/define-own.ts'
import { createMigratedDatabase, runCommand } from '../../testing/helpers/command.ts'
import { addOwnCommands } from '../src/program.ts'

const own = defineOwn({
  commands({ program, jsonOption, printRows, readConfig, withDatabase, UsageError }) {
    const visits = program.command('visits').usage('<command> [options]')
    visits
      .command('list')
      .description('List the visits')
      .addOption(jsonOption)
      .action(({ json }) =>
        withDatabase(readConfig(), (database) =>
          printRows(json, ['id', 'name'], () =>
            database.execute<{ id: string }>(sql`select 'a' as id, 'Ada' as name`),
          ),
        ),
      )
    visits
      .command('check')
      .description('Check the visits')
      .action(() => {
        throw new UsageError('No day was named')
      })
  },
})

t.test('commands of a project', async (t) => {
  const page = readFileSync(new URL('../../../docs/operators/command-line.md', import.meta.url), 'utf8')
  await addOwnCommands(async () => own)
  const settings = await createMigratedDatabase(t)
  t.match(await runCommand(t, 'visits list --json', settings), { code: 0, out: '[{"id":"a","name":"Ada"}' })
  t.same(await runCommand(t, 'visits check'), {
    code: 2,
    out: '',
    err: "error: No day was named\nTry 'npx resource-api visits check --help'.\n",
  })
  t.match(await runCommand(t, 'visits list --wrong'), {
    code: 2,
    err: "Try 'npx resource-api visits list --help'.",
  })
  t.match(await runCommand(t, '--help'), { code: 0, out: /visits list +List the visits\n +visits check/ })

  const updated = await updateCommandHelp(page)
  t.match(updated, /\n {2}visits list +List the visits\n/, 'the overview lists it')
  t.equal(await updateCommandHelp(updated), updated, 'a second run changes nothing')
})
