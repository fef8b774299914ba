import { CALLER, toReads, toWrites } from '@resource-api/api/rules'
import { userProfiles as table, toEveryRole, users } from '@resource-api/database'
import {
  collection,
  create,
  defineResource,
  list,
  read,
  remove,
  replace,
  restore,
  update,
} from '@resource-api/resources'
import { UserProfile, UserProfileChange, UserProfileCreate } from '../schemas/user-profiles.ts'

const relations = { user: { to: users, local: 'user_id', foreign: 'id', many: false } } as const

const staff = { admin: true, manager: true } as const
const ownerOrStaff = { ...toEveryRole([{ user_id: CALLER }]), ...staff } as const

export const userProfiles = collection({
  table,
  description: 'Public descriptions of users, one per user',
  schemas: { read: UserProfile, create: UserProfileCreate, change: UserProfileChange },
  bodies: { immutable: ['user_id'] },
  lists: {
    filters: ['user_id'],
    nullChecks: ['display_name', 'bio', 'avatar_url', 'website_url', 'location', 'time_zone', 'locale'],
    // An index of each would slow down every write.
    unindexed: [
      'display_name_null',
      'bio_null',
      'avatar_url_null',
      'website_url_null',
      'location_null',
      'time_zone_null',
      'locale_null',
    ],
    sorts: ['display_name', 'created_at', 'updated_at'],
    search: ['display_name', 'bio'],
  },
  relations,
  access: { ...toReads({ ...ownerOrStaff, member: true }), ...toWrites(ownerOrStaff), restore: staff },
  defaults: (actor) => ({ user_id: actor.userId }),
})

export default defineResource(userProfiles, async (app, resource) => {
  app.get('/user-profiles', list(resource))
  app.get('/user-profiles/:id', read(resource))
  app.post('/user-profiles', create(resource))
  app.put('/user-profiles/:id', replace(resource))
  app.patch('/user-profiles/:id', update(resource))
  app.delete('/user-profiles/:id', remove(resource))
  app.post('/user-profiles/:id/restores', restore(resource))
})
