/** Concurrent changes cannot remove the last active admin. */
import t from 'tap'
import { type Client, testApp } from '../../../testing/helpers/app.ts'
import { SERVER } from '../../../testing/helpers/database.ts'

const skip = SERVER ? false : 'the embedded database runs one transaction at a time: set DATABASE_URL'

t.test('of two admins who demote each other concurrently one remains', { skip }, async (t) => {
  const { admin: first, adminId, database, person } = await testApp(t)
  for (let round = 0; round < 8; round++) {
    const second = await person('admin')
    const ways = [
      (by: Client, id: string) => by.patch(`/users/${id}`, { role: 'member' }),
      (by: Client, id: string) => by.patch(`/users/${id}`, { status: 'suspended' }),
      (by: Client, id: string) => by.delete(`/users/${id}`),
      (by: Client) => by.patch('/users/me', { status: 'inactive' }),
    ]
    const way = ways[round % 4] ?? ways[0]
    const replies = await Promise.all([way?.(first, second.id), way?.(second.client, adminId)])
    const statuses = replies.map((reply) => reply?.status)
    t.ok(
      statuses.every((status) => status !== undefined && status < 500),
      statuses.join(),
    )
    const [left] = await database.run(
      `select count(*) as n from users where role = 'admin' and status = 'active'`,
    )
    t.equal(Number(left?.n), 1, statuses.join())
    await database.run(`delete from users where id = $1`, [second.id])
    await database.run(
      `insert into users (id, name, email, role) values ($1, 'Admin', 'admin@example.com', 'admin')
       on conflict (id) do update set role = 'admin', status = 'active'`,
      [adminId],
    )
  }
})
