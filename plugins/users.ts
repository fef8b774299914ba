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

export default defineResource(users, async (app, resource) => {
  app.get('/users', list(resource))
  app.get('/users/aggregates', aggregate(resource))
  app.get('/users/:id', read(resource))
  app.post('/users', create(resource, userCreate))
  app.put('/users/:id', replace(resource, userChange))
  app.patch('/users/:id', update(resource, userChange))
  app.delete('/users/:id', remove(resource, userRemove))
})
