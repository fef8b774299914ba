/** `doctor`, with the check of the admins. */
import { attempt, createDoctor, ok, warn } from '@resource-api/cli/commands'
import { readAdminState } from '../auth/bootstrap.ts'
import { getAdminAdvice, NO_ACTIVE_ADMIN } from '../first-admin.ts'

export const doctor = createDoctor((database, { NODE_ENV, ADMIN_PASSWORD, ADMIN_API_KEY }) =>
  attempt('admin', 'Let the role read the table users.', async () => {
    const { hadUsers, hasActiveAdmin } = await readAdminState(database)
    if (hasActiveAdmin) return ok('admin', 'There is an active admin')
    const isCreated = NODE_ENV !== 'production' || ADMIN_PASSWORD !== undefined || ADMIN_API_KEY !== undefined
    if (isCreated && !hadUsers) return ok('admin', 'There are no users; the first start creates an admin')
    return warn('admin', NO_ACTIVE_ADMIN, getAdminAdvice(hadUsers))
  }),
)
