/** The caller of a request. */
export { type Actor, ANONYMOUS_ACTOR, type CallerRole, formatActor, NO_USER_ID } from './actor.ts'
