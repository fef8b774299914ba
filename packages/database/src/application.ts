/**
 * What an application declares of itself. The packages read it while they are loaded, so this module loads none of them, and
 * the application declares itself in a module that each of its processes imports first.
 */
import type { TProperties } from '@sinclair/typebox'

/** The roles that the packages name: that of who signs up, who may do what concerns themselves, and that of who may do all. */
type EngineRole = 'member' | 'admin'

/** The collections of the packages whose names an application can change. */
const BUILT_IN = ['api-keys', 'deliveries', 'events', 'replays', 'sessions', 'webhook-endpoints'] as const
type BuiltIn = (typeof BUILT_IN)[number]

/** @public */
export interface Application {
  /** The name of the service, the client of PostgreSQL and Redis, and the first part of many names. */
  name: string
  /** The title of pages, mails and documents. Default: the name. */
  title?: string
  /** The npm package of the TypeScript client, for which the documents have samples. Default: none. */
  clientPackage?: string
  /** The roles of users, in the order of the documents; `member` and `admin` are among them. */
  roles: readonly string[]
  /** The roles that, besides admins, read all users, and have webhook endpoints. */
  staff?: readonly string[]
  /** Codes of invalid fields besides those of the packages, each with its meaning for clients, and what they can do. */
  violations?: Readonly<Record<string, string>>
  /**
   * A folder with templates of mails, files that replace those of the package accounts, and others. A relative path begins
   * at the package.json of the application, which is found from `url`.
   */
  templates?: string
  /** `import.meta.url` of the module that declares the application. */
  url?: string
  /** Settings besides those of the packages, by the functions of `@resource-api/http/settings`. */
  settings?: TProperties
  /**
   * Other names of built-in collections, so that resources of the application can have theirs: in paths, scopes, types of
   * events and operation ids. Tables and the titles of schemas stay.
   */
  names?: Partial<Readonly<Record<BuiltIn, string>>>
}

/**
 * The application, for the compiler. It adds its own with `declare module '@resource-api/database/application'`, as the
 * member `application`.
 * @public
 */
// biome-ignore lint/suspicious/noEmptyInterface: the application adds to it
export interface Registered {}

/** A role of users. */
export type Role =
  | EngineRole
  | (Registered extends { application: { roles: readonly (infer R extends string)[] } } ? R : never)

/** A code of invalid fields that the application declares. */
export type OwnViolation = Registered extends { application: { violations: infer V } }
  ? keyof V & string
  : never

/** The declared settings. */
export type DeclaredSettings = Registered extends { application: { settings: infer S extends TProperties } }
  ? S
  : Record<never, never>

/** What the compiler checks of a declaration beyond its type. */
interface Checked<Roles extends readonly string[]> {
  roles: EngineRole extends Roles[number] ? unknown : 'roles must have member and admin'
  staff?: readonly Roles[number][]
}

/** That of processes without one, such as drizzle-kit. */
let application: Application = { name: 'application', roles: ['member', 'admin'] }
let isDefined = false
let isRead = false

/**
 * Declares the application.
 * @throws Error if a module of the packages has read it already
 */
export function defineApplication<const A extends Application>(declared: A & Checked<A['roles']>): A {
  if (isDefined) throw new Error('defineApplication is called twice')
  if (isRead)
    throw new Error(
      'The application is declared too late: import the module that calls defineApplication before all others, also in a test',
    )
  isDefined = true
  application = declared
  return declared
}

export function getApplication(): Application {
  isRead = true
  return application
}

/** Returns the name that a built-in collection has in this application. */
export const getBuiltInName = (collection: BuiltIn): string =>
  getApplication().names?.[collection] ?? collection

/** Returns the built-in collection that has a name in this application. */
export const findBuiltIn = (name: string): BuiltIn | undefined =>
  BUILT_IN.find((collection) => getBuiltInName(collection) === name)
