/** The list of commands. */
import { keysCreate, keysRevoke, usersCreate } from './accounts.ts'
import { backup } from './backup.ts'
import type { Commands } from './command.ts'
import { copy } from './copy.ts'
import { usersConfirmEmail, usersLink } from './identities.ts'
import { migrate } from './migrate.ts'
import { openapi } from './openapi.ts'
import { restore } from './restore.ts'
import { seed } from './seed.ts'
import { serve } from './serve.ts'
import { signingKeysRotate } from './signing-keys.ts'

export const commands: Commands = {
  serve,
  migrate,
  seed,
  openapi,
  backup,
  restore,
  copy,
  'users create': usersCreate,
  'users link': usersLink,
  'users confirm-email': usersConfirmEmail,
  'api-keys create': keysCreate,
  'api-keys revoke': keysRevoke,
  'signing-keys rotate': signingKeysRotate,
}
