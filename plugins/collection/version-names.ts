/** What a definition says of its fields in one version, and the names that they have there. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Violation } from '../../schemas/error.ts'
import { rewriteError } from '../errors/index.ts'

/** Fields of every resource in every version: addresses, the default sort and `Last-Modified` depend on them. */
export const COMMON_FIELDS = ['id', 'created_at', 'updated_at'] as const

export type CommonField = (typeof COMMON_FIELDS)[number]

/** A read-only field that only a version has. Its value follows from the resource. */
interface AddedField<Fields, Value> {
  schema: Value
  /** @param resource the fields of the read schema, in their JSON form and with the names of the definition */
  value(resource: Readonly<Fields>): Value extends TSchema ? Static<Value> : never
}

/** The differences between a version and the definition. Fields that are not named are as in the definition. */
export interface VersionFields<
  Fields = Record<string, unknown>,
  Name extends string = string,
  Added = Readonly<Record<string, TSchema>>,
> {
  rename?: Readonly<Partial<Record<Name, string>>>
  /** Fields that the version does not have: they are not in responses, and unknown in requests. */
  hide?: readonly Name[]
  add?: { readonly [K in keyof Added]: AddedField<Fields, Added[K]> }
}

/** Returns the names of all fields of a resource, those that can only be written included. */
export const listFields = (schemas: Readonly<Record<string, TObject>>): string[] => [
  ...new Set(Object.values(schemas).flatMap(({ properties }) => Object.keys(properties))),
]

/** Statuses of errors that concern the fields of the resource. Their messages may name fields. */
const FIELD_ERRORS: ReadonlySet<number> = new Set([403, 409, 422])

export function createVersionNames(
  schemas: Readonly<Record<'read' | 'create' | 'change', TObject>>,
  { rename = {}, hide = [] }: VersionFields,
) {
  const isHidden = (name: string) => hide.includes(name)
  const publicNames = new Map(
    listFields(schemas).flatMap((name) => (isHidden(name) ? [] : [[name, rename[name] ?? name] as const])),
  )
  const internalNames = new Map([...publicNames].map(([internal, named]) => [named, internal]))
  const toPublic = (name: string) => publicNames.get(name) ?? name
  const toInternal = (name: string) => internalNames.get(name) ?? name

  /** Replaces the names of renamed fields in a message, but not in a quoted value of the client. */
  const translateMessage = (message: string) =>
    message.replace(/"[^"]*"|\w+/g, (word) => (Object.hasOwn(rename, word) ? toPublic(word) : word))

  /** Replaces the first segment of the path: the names inside a field are those of every version. */
  const translateViolation = ({ field, message, code }: Violation): Violation => ({
    field: field.replace(/^[^.]*/, toPublic),
    message: translateMessage(message),
    code,
  })

  return {
    isHidden,
    toPublic,
    toInternal,
    translateViolation,

    /** Returns the names of a version, without those of hidden fields. */
    listPublic: (names: readonly string[]) => names.filter((name) => !isHidden(name)).map(toPublic),

    /** Returns a record by the names of the version, without hidden fields. */
    toPublicFields<T>(record: Readonly<Record<string, T>>): Record<string, T> {
      const visible = Object.entries(record).filter(([name]) => !isHidden(name))
      return Object.fromEntries(visible.map(([name, value]) => [toPublic(name), value]))
    },

    toInternalFields: <T>(record: Readonly<Record<string, T>>): Record<string, T> =>
      Object.fromEntries(Object.entries(record).map(([name, value]) => [toInternal(name), value])),

    /** Returns an error with the names of the version. Other errors than those of fields are returned unchanged. */
    translateError(error: unknown): unknown {
      return rewriteError(error, ({ status, message, violations }) =>
        FIELD_ERRORS.has(status)
          ? { message: translateMessage(message), violations: violations.map(translateViolation) }
          : { violations },
      )
    },
  }
}

export type VersionNames = ReturnType<typeof createVersionNames>
