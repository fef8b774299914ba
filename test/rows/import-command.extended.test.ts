/** The command `import` sends a file, and prints what is wrong with its rows. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { runCommand } from '../helpers/command.ts'
import { testFolder } from '../helpers/database.ts'

t.test('the command imports a file', async (t) => {
  const { base, admin } = await testApp(t)
  const file = join(testFolder(t), 'users.csv')
  const run = (text: string) =>
    runCommand(t, `import users --url ${base} --file ${file} --format csv ${text}`, {
      RESOURCE_API_KEY: ADMIN_KEY,
    })
  await writeFile(file, 'name,email\nAda,ada.import@example.com\n')
  t.match(await run('--dry-run'), {
    code: 0,
    out: 'Nothing was written. 1 created, 0 updated, 0 unchanged\n',
  })
  t.match(await run(''), { code: 0, out: '1 created, 0 updated, 0 unchanged\n' })
  await writeFile(file, 'name,email\nGrace,ada.import@example.com\n')
  t.match(await run('--on-conflict email --json'), {
    code: 0,
    out: '{"created":0,"updated":1,"unchanged":0}\n',
  })
  t.match((await admin.get('/users?email=ada.import@example.com')).body.data, [{ name: 'Grace' }])
  t.match(await run(''), { code: 1, err: /rows\.1\.email is taken \(line 2\)/ })
  t.match(await run('--file /nothing'), { code: 1, err: /nothing/ })
})
