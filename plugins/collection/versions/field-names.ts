/** Translates between the field names of a definition and those of a version. */
import type { Violation } from '../../../schemas/error.ts'
import { ApiError, rewriteError } from '../../errors/index.ts'
import type { ResourceDefinition } from '../definition.ts'
import type { VersionFields } from './version-fields.ts'

type Schemas = ResourceDefinition['schemas']

/** Returns the names of all fields of a resource, those that can only be written included. */
export const listFields = ({ read, create, change }: Schemas): string[] => [
  ...new Set([read, create, change].flatMap(({ properties }) => Object.keys(properties))),
]

/** Statuses of errors that concern the fields of the resource. Their messages may name fields. */
const FIELD_ERRORS: ReadonlySet<number> = new Set([403, 409, 422])

/** Creates the functions that translate the names of a resource's fields. */
export function createFieldNames(schemas: Schemas, { rename = {}, hide = [] }: VersionFields) {
  const hidden = new Set(hide)
  const visible = listFields(schemas).filter((name) => !hidden.has(name))
  const publicNames = new Map(visible.map((name) => [name, rename[name] ?? name]))
  const internalNames = new Map([...publicNames].map(([internal, named]) => [named, internal]))
  const renamed = new Map([...publicNames].filter(([internal, named]) => internal !== named))

  const isHidden = (name: string) => hidden.has(name)
  const toPublic = (name: string) => publicNames.get(name) ?? name
  const toInternal = (name: string) => internalNames.get(name) ?? name

  const mapKeys = <T>(record: Readonly<Record<string, T>>, toName: (name: string) => string) =>
    Object.fromEntries(Object.entries(record).map(([name, value]) => [toName(name), value]))

  /** Replaces the names of renamed fields in a message, but not in a quoted value of the client. */
  const translateMessage = (message: string) =>
    message.replace(/"[^"]*"|\w+/g, (word) => renamed.get(word) ?? word)

  /** Replaces the first segment of the path: the names inside a field are those of every version. */
  const translateViolation = ({ field, message, code }: Violation): Violation => {
    const [name = '', ...rest] = field.split('.')
    return { field: [toPublic(name), ...rest].join('.'), message: translateMessage(message), code }
  }

  return {
    isHidden,
    toPublic,
    toInternal,

    /** Returns the names of a version, without those of hidden fields. */
    listPublic: (names: readonly string[]) => names.filter((name) => !isHidden(name)).map(toPublic),

    /** Returns a record by the names of a version, without hidden fields. */
    toPublicFields: <T>(record: Readonly<Record<string, T>>): Record<string, T> =>
      mapKeys(Object.fromEntries(Object.entries(record).filter(([name]) => !isHidden(name))), toPublic),

    /** Returns a record by the names of the definition. */
    toInternalFields: <T>(record: Readonly<Record<string, T>>): Record<string, T> =>
      mapKeys(record, toInternal),

    /** Replaces names in backticks. */
    translateDescription: (text: string) =>
      text.replace(/`([a-z0-9_]+)`/g, (_, name: string) => `\`${toPublic(name)}\``),

    translateViolation,

    /** Returns an error with the names of the version. Other errors than those of fields are returned unchanged. */
    translateError(error: unknown): unknown {
      if (!(error instanceof ApiError) || !FIELD_ERRORS.has(error.status)) return error
      return rewriteError(error, {
        message: translateMessage(error.message),
        violations: error.violations.map(translateViolation),
      })
    },
  }
}

export type FieldNames = ReturnType<typeof createFieldNames>
