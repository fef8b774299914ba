/** Users: the collection and its code are those of accounts. */
import { userChange, userCreate, userRemove, users } from '@resource-api/accounts'
import {
  aggregate,
  create,
  defineResource,
  list,
  read,
  remove,
  replace,
  update,
} from '@resource-api/resources'

export default defineResource(users, async (app) => {
  app.get('/users', list(users))
  app.get('/users/aggregates', aggregate(users))
  app.get('/users/:id', read(users))
  app.post('/users', create(users, userCreate))
  app.put('/users/:id', replace(users, userChange))
  app.patch('/users/:id', update(users, userChange))
  app.delete('/users/:id', remove(users, userRemove))
})
