/** The list of commands. */
import { keysCreate, keysRevoke, usersCreate } from './accounts.ts'
import { backup } from './backup.ts'
import type { Commands } from './command.ts'
import { copy } from './copy.ts'
import { doctor } from './doctor.ts'
import { eventsTail } from './events.ts'
import { usersConfirmEmail, usersLink } from './identities.ts'
import { keysList, usersList } from './lists.ts'
import { migrate } from './migrate.ts'
import { openapi } from './openapi.ts'
import { restore } from './restore.ts'
import { seed } from './seed.ts'
import { serve } from './serve.ts'
import { signingKeysRotate } from './signing-keys.ts'
import { usersSetPassword, usersSetRole, usersSetStatus } from './user-changes.ts'

export const commands: Commands = {
  serve,
  migrate,
  doctor,
  seed,
  openapi,
  backup,
  restore,
  copy,
  'users list': usersList,
  'users create': usersCreate,
  'users set-password': usersSetPassword,
  'users set-role': usersSetRole,
  'users set-status': usersSetStatus,
  'users link': usersLink,
  'users confirm-email': usersConfirmEmail,
  'api-keys list': keysList,
  'api-keys create': keysCreate,
  'api-keys revoke': keysRevoke,
  'events tail': eventsTail,
  'signing-keys rotate': signingKeysRotate,
}
