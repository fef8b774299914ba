/** Builds the operations of `client.batch`: writes of one transaction, each with the type of its result. */
import { type ResourceId, serializePath } from './path.ts'
import type {
  CollectionPath,
  CreateBody,
  Created,
  MethodName,
  ReplaceBody,
  Resource,
  UpdateBody,
} from './types.ts'

declare const RESULT: unique symbol

/** A write of a batch, as the document describes it. */
export interface BatchOperation<Result = unknown> {
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path without version: `/users/me`. */
  path: string
  body?: object | undefined
  if_match?: string | undefined
  /** The type of the result; there is no value. */
  readonly [RESULT]?: Result
}

/** An operation that creates a resource. */
export interface Creation<Result = unknown> extends BatchOperation<Result> {
  /** Stands for the id of the resource in later operations of the same batch. */
  readonly id: string
}

interface Match {
  /** The entity tag that was read with the resource: the batch fails with 412 if it has changed since. */
  ifMatch?: string | undefined
}

interface Builders<Paths, P extends string> {
  /** Returns an operation that creates a resource. */
  create(body: CreateBody<Paths, P>): Creation<Created<Paths, P>>
  /** Returns an operation that replaces a resource. */
  replace(id: ResourceId, body: ReplaceBody<Paths, P>, options?: Match): BatchOperation<Resource<Paths, P>>
  /** Returns an operation that changes some fields of a resource. */
  update(id: ResourceId, changes: UpdateBody<Paths, P>, options?: Match): BatchOperation<Resource<Paths, P>>
  /** Returns an operation that deletes a resource. */
  delete(id: ResourceId, options?: Match): BatchOperation<undefined>
}

/** The operations of a collection for `client.batch`. They send nothing. */
export type Operations<Paths, P extends CollectionPath<Paths>> = Pick<
  Builders<Paths, P>,
  Extract<MethodName<Paths, P>, keyof Builders<Paths, P>>
>

/** The results of operations, in their order. */
export type BatchResults<List extends readonly BatchOperation[]> = {
  -readonly [I in keyof List]: List[I] extends BatchOperation<infer Result> ? Result : never
}

/** What `id` of a creation is until the place of the operation is known: a whole text of JSON, or segment of a path. */
const PLACEHOLDER = /(?<=["/])created-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=["/])/g

export function createOperations<Paths, P extends CollectionPath<Paths>>(
  path: P,
  parent: Record<string, string>,
): Builders<Paths, P> {
  const collection = serializePath(path.slice('/api/v1'.length), parent)
  const address = (id: ResourceId) => serializePath(`${collection}/{id}`, { id })
  return {
    create: (body) => {
      const operation = { method: 'POST', path: collection, body } as const
      // A property that is not sent.
      return Object.defineProperty({ ...operation, id: '' }, 'id', {
        value: `created-${crypto.randomUUID()}`,
        enumerable: false,
      })
    },
    replace: (id, body, { ifMatch } = {}) => ({ method: 'PUT', path: address(id), body, if_match: ifMatch }),
    update: (id, body, { ifMatch } = {}) => ({ method: 'PATCH', path: address(id), body, if_match: ifMatch }),
    delete: (id, { ifMatch } = {}) => ({ method: 'DELETE', path: address(id), if_match: ifMatch }),
  }
}

/**
 * Returns the body of `POST /batches`.
 * @throws TypeError if an operation refers to a resource that no earlier one creates
 */
export function buildBatch(operations: readonly BatchOperation[]): { operations: unknown[] } {
  const references = new Map<string, string>()
  const sent = operations.map((operation, i) => {
    const text = JSON.stringify(operation).replaceAll(PLACEHOLDER, (id) => {
      const reference = references.get(id)
      if (reference !== undefined) return reference
      throw new TypeError(
        `Operation ${i} refers to a resource that no earlier operation of the batch creates`,
      )
    })
    if ('id' in operation) references.set(String(operation.id), `$${i}`)
    return JSON.parse(text)
  })
  return { operations: sent }
}
