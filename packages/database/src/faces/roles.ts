/** The roles that the application declares. */
export type { Role } from '../application.ts'
export { isRole, roles, staff, toStaff } from '../roles.ts'
