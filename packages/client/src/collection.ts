/** The calls of a collection, typed by its paths in the OpenAPI document. */

import { createOperations, type Operations } from './batch.ts'
import { Deadline } from './deadline.ts'
import { PreconditionFailedError } from './errors.ts'
import { type ExportOptions, openExport, readRows } from './export.ts'
import { List } from './list.ts'
import type { ResourceId } from './path.ts'
import { type ApiResponse, ResponsePromise } from './response.ts'
import { type ImportCounts, type ImportOptions, type ImportSource, sendRows } from './rows.ts'
import type { Call, CallOptions, Transport } from './transport.ts'
import type {
  Aggregate,
  AggregateQuery,
  CollectionPath,
  CreateBody,
  Created,
  ExportQuery,
  FieldName,
  GroupName,
  ListQuery,
  MeasureName,
  MemberPath,
  MethodName,
  OptionsAt,
  RelationName,
  ReplaceBody,
  Resource,
  Selection,
  UpdateBody,
} from './types.ts'

/** How often `edit` reads and writes before it gives up. */
const MAX_EDITS = 20
/** The longest pause of `edit` after its first conflict; it doubles with each further one, up to the last. */
const FIRST_EDIT_PAUSE_MS = 20
const MAX_EDIT_PAUSE_MS = 200

/** Returns a random pause, so that clients that edit the same resource do not collide again. */
const getEditPauseMs = (edits: number): number =>
  Math.random() * Math.min(MAX_EDIT_PAUSE_MS, FIRST_EDIT_PAUSE_MS * 2 ** edits)

/** Options of writes. */
export interface WriteOptions extends CallOptions {
  /** Whether nothing is written: the result is what it would be, without an entity tag. */
  dryRun?: boolean | undefined
}

/** Options of writes that repeat safely by their key. */
export interface KeyOptions extends WriteOptions {
  /** The `Idempotency-Key`; by default a random one for each call, the same in its retries. */
  idempotencyKey?: string | undefined
}

/** Options of writes to an existing resource. */
export interface MatchOptions extends WriteOptions {
  /** The entity tag that was read with the resource: the write fails with 412 if it has changed since. */
  ifMatch?: string | undefined
}

/** All calls that a collection can have. */
interface Calls<Paths, P extends string> {
  /**
   * Returns a list: iterate over it for the resources of all pages, or call `page()` for one page.
   * @param query filters, sorts, search, `fields`, `include` and pagination
   */
  list<
    Fields extends FieldName<Paths, P> = FieldName<Paths, P>,
    Relations extends RelationName<Paths, P> = never,
  >(
    query?: ListQuery<Paths, P, Fields, Relations>,
    options?: CallOptions,
  ): List<Paths, P, Resource<Paths, P, Fields, Relations>>

  /**
   * Returns an export: iterate over it for all resources of a list, from one response. Leaving the loop ends it.
   * @param query filters, sorts, search and `fields`
   * @throws RateLimitError while another export of the user is running; NetworkError if the export is incomplete
   */
  export<Fields extends FieldName<Paths, P> = FieldName<Paths, P>>(
    query?: ExportQuery<Paths, P, Fields>,
    options?: CallOptions,
  ): AsyncIterable<Resource<Paths, P, Fields>>

  /** Returns the bytes of an export. Their stream fails if the export is incomplete. @throws RateLimitError */
  exportStream(query?: ExportQuery<Paths, P>, options?: ExportOptions): Promise<ReadableStream<Uint8Array>>

  /**
   * Returns figures of the resources of a list, of all together or in groups.
   * @param query measures such as `sum:total_amount`, groups such as `created_at:day`, filters and search
   * @throws ValidationError for more than 1,000 groups, and for a sum that no number holds
   */
  aggregate<Measures extends MeasureName<Paths, P>, Groups extends GroupName<Paths, P> = never>(
    query: AggregateQuery<Paths, P, Measures, Groups>,
    options?: CallOptions,
  ): ResponsePromise<Aggregate<Paths, P, Measures, Groups>[]>

  /** Returns a resource. @throws NotFoundError */
  get<
    Fields extends FieldName<Paths, P> = FieldName<Paths, P>,
    Relations extends RelationName<Paths, P> = never,
  >(
    id: ResourceId,
    selection?: Selection<Paths, P, Fields, Relations>,
    options?: CallOptions,
  ): ResponsePromise<Resource<Paths, P, Fields, Relations>>

  /** Creates a resource and returns it. @throws ValidationError, ConflictError */
  create(
    body: CreateBody<Paths, P>,
    options?: OptionsAt<Paths, P, 'post', KeyOptions>,
  ): ResponsePromise<Created<Paths, P>>

  /** Replaces a resource: fields that the body leaves out take their default. @throws ValidationError */
  replace(
    id: ResourceId,
    body: ReplaceBody<Paths, P>,
    options?: OptionsAt<Paths, MemberPath<P>, 'put', MatchOptions>,
  ): ResponsePromise<Resource<Paths, P>>

  /** Changes some fields of a resource; null clears a field. @throws PreconditionFailedError, ValidationError */
  update(
    id: ResourceId,
    changes: UpdateBody<Paths, P>,
    options?: OptionsAt<Paths, MemberPath<P>, 'patch', MatchOptions & KeyOptions>,
  ): ResponsePromise<Resource<Paths, P>>

  /**
   * Reads a resource, computes changes from it and writes them with `If-Match`. If the resource was changed in between,
   * does so again, at most 20 times.
   * @param change returns the changes, or undefined to leave the resource as it is
   * @throws PreconditionFailedError if each of the writes came too late
   */
  edit(
    id: ResourceId,
    change: (current: Resource<Paths, P>) => EditResult<Paths, P> | Promise<EditResult<Paths, P>>,
    options?: CallOptions,
  ): ResponsePromise<Resource<Paths, P>>

  /** Deletes a resource. @throws NotFoundError, ConflictError */
  delete(
    id: ResourceId,
    options?: OptionsAt<Paths, MemberPath<P>, 'delete', MatchOptions>,
  ): ResponsePromise<void>

  /** Creates a deleted resource again, as it was. @throws NotFoundError, ConflictError, ValidationError */
  restore(
    id: ResourceId,
    options?: OptionsAt<Paths, `${MemberPath<P>}/restores`, 'post', KeyOptions>,
  ): ResponsePromise<Resource<Paths, P>>
}

type EditResult<Paths, P extends string> = UpdateBody<Paths, P> | undefined

/** Writes of many rows, each where the document has the single write. */
interface RowCalls<Paths, P extends CollectionPath<Paths>> {
  /** The operations of the collection for `client.batch`. */
  batch: Operations<Paths, P>

  /**
   * Creates all rows, or none. Sent once: with a key, the caller can send the same rows again.
   * @param source rows; or the bytes of a file, whose form is `format`
   * @throws ValidationError, whose fields begin with the row: `rows.17.name`
   */
  import(source: ImportSource<Paths, P>, options?: ImportOptions): ResponsePromise<ImportCounts>
}

/** Of a collection of a view there are none. */
type RowCallName<Paths, P extends CollectionPath<Paths>> =
  | (keyof Operations<Paths, P> extends never ? never : 'batch')
  | ('create' extends MethodName<Paths, P> ? 'import' : never)

/**
 * The calls of a collection: those whose methods the document has.
 * @typeParam Unbatched the paths of the collections that batches and imports do not write
 */
export type Collection<Paths, P extends CollectionPath<Paths>, Unbatched = never> = Pick<
  Calls<Paths, P>,
  MethodName<Paths, P>
> &
  (P extends Unbatched ? unknown : Pick<RowCalls<Paths, P>, RowCallName<Paths, P>>)

export class CollectionClient<Paths, P extends CollectionPath<Paths>> implements Calls<Paths, P> {
  readonly #transport: Transport
  readonly #path: P
  readonly #memberPath: MemberPath<P>
  readonly #parent: Record<string, string>
  /** @param parent the path parameters of the parent, for example `user_id` */
  constructor(transport: Transport, path: P, parent: Record<string, string> = {}) {
    this.#transport = transport
    this.#path = path
    this.#memberPath = `${path}/{id}`
    this.#parent = parent
  }

  /** The operations of the collection for `client.batch`. */
  get batch(): Operations<Paths, P> {
    return createOperations<Paths, P>(this.#path, this.#parent)
  }

  list<
    Fields extends FieldName<Paths, P> = FieldName<Paths, P>,
    Relations extends RelationName<Paths, P> = never,
  >(
    query?: ListQuery<Paths, P, Fields, Relations>,
    options: CallOptions = {},
  ): List<Paths, P, Resource<Paths, P, Fields, Relations>> {
    return new List({ ...query }, (pageQuery) =>
      this.#send('get', this.#path, this.#parent, { query: pageQuery, ...options }),
    )
  }

  export<Fields extends FieldName<Paths, P> = FieldName<Paths, P>>(
    query?: ExportQuery<Paths, P, Fields>,
    options: CallOptions = {},
  ): AsyncIterable<Resource<Paths, P, Fields>> {
    return readRows(() => this.#openExport(query, { ...options, format: 'ndjson' }))
  }

  exportStream(
    query?: ExportQuery<Paths, P>,
    options: ExportOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    return this.#openExport(query, options)
  }

  #openExport(query: object | undefined, options: ExportOptions): Promise<ReadableStream<Uint8Array>> {
    return openExport(
      this.#transport,
      { path: this.#path, pathParameters: this.#parent, query: { ...query } },
      options,
    )
  }

  get<
    Fields extends FieldName<Paths, P> = FieldName<Paths, P>,
    Relations extends RelationName<Paths, P> = never,
  >(
    id: ResourceId,
    selection: Selection<Paths, P, Fields, Relations> = {},
    options: CallOptions = {},
  ): ResponsePromise<Resource<Paths, P, Fields, Relations>> {
    return new ResponsePromise(this.#sendToMember('get', id, { query: selection, ...options }))
  }

  aggregate<Measures extends MeasureName<Paths, P>, Groups extends GroupName<Paths, P> = never>(
    query: AggregateQuery<Paths, P, Measures, Groups>,
    options: CallOptions = {},
  ): ResponsePromise<Aggregate<Paths, P, Measures, Groups>[]> {
    const path = `${this.#path}/aggregates`
    return new ResponsePromise(this.#send('get', path, this.#parent, { query, ...options }))
  }

  create(
    body: CreateBody<Paths, P>,
    { idempotencyKey, ...options }: KeyOptions = {},
  ): ResponsePromise<Created<Paths, P>> {
    const headers = { 'Idempotency-Key': idempotencyKey }
    return new ResponsePromise(this.#send('post', this.#path, this.#parent, { headers, body, ...options }))
  }

  import(source: ImportSource<Paths, P>, options?: ImportOptions): ResponsePromise<ImportCounts> {
    const address = { path: this.#path, pathParameters: this.#parent }
    return new ResponsePromise(sendRows(this.#transport, address, source, options))
  }

  replace(
    id: ResourceId,
    body: ReplaceBody<Paths, P>,
    { ifMatch, ...options }: MatchOptions = {},
  ): ResponsePromise<Resource<Paths, P>> {
    const headers = { 'If-Match': ifMatch }
    return new ResponsePromise(this.#sendToMember('put', id, { headers, body, ...options }))
  }

  update(
    id: ResourceId,
    changes: UpdateBody<Paths, P>,
    { ifMatch, idempotencyKey, ...options }: MatchOptions & KeyOptions = {},
  ): ResponsePromise<Resource<Paths, P>> {
    const headers = { 'If-Match': ifMatch, 'Idempotency-Key': idempotencyKey }
    return new ResponsePromise(this.#sendToMember('patch', id, { headers, body: changes, ...options }))
  }

  edit(
    id: ResourceId,
    change: (current: Resource<Paths, P>) => EditResult<Paths, P> | Promise<EditResult<Paths, P>>,
    options: CallOptions = {},
  ): ResponsePromise<Resource<Paths, P>> {
    return new ResponsePromise(this.#edit(id, change, options))
  }

  delete(id: ResourceId, { ifMatch, ...options }: MatchOptions = {}): ResponsePromise<void> {
    const headers = { 'If-Match': ifMatch }
    return new ResponsePromise(this.#sendToMember('delete', id, { headers, ...options }))
  }

  restore(
    id: ResourceId,
    { idempotencyKey, ...options }: KeyOptions = {},
  ): ResponsePromise<Resource<Paths, P>> {
    const headers = { 'Idempotency-Key': idempotencyKey }
    const pathParameters = { ...this.#parent, id }
    const path = `${this.#memberPath}/restores`
    return new ResponsePromise(this.#send('post', path, pathParameters, { headers, ...options }))
  }

  async #edit(
    id: ResourceId,
    change: (current: Resource<Paths, P>) => EditResult<Paths, P> | Promise<EditResult<Paths, P>>,
    { deadlineMs = this.#transport.deadlineMs, signal }: CallOptions,
  ): Promise<ApiResponse<Resource<Paths, P>>> {
    const deadline = new Deadline(deadlineMs, signal ?? new AbortController().signal)
    const limits = { signal: deadline.signal, deadlineMs }
    try {
      for (let edits = 1; ; edits++) {
        const current = await this.get(id, {}, limits).withResponse()
        const changes = await change(current.data)
        if (changes === undefined) return current
        // Without the tag the write would undo what others have written since.
        if (current.etag === null) throw new Error('The response has no ETag')
        try {
          return await this.update(id, changes, { ...limits, ifMatch: current.etag }).withResponse()
        } catch (error) {
          if (!(error instanceof PreconditionFailedError) || edits === MAX_EDITS) throw error
        }
        await deadline.wait(getEditPauseMs(edits))
      }
    } finally {
      deadline.clear()
    }
  }

  #sendToMember<T>(method: Method, id: ResourceId, init: Init): Promise<T> {
    return this.#send(method, this.#memberPath, { ...this.#parent, id }, init)
  }

  async #send<T>(
    method: Method,
    path: string,
    pathParameters: Record<string, ResourceId>,
    init: Init,
  ): Promise<T> {
    const response = await this.#transport.send({ method, path, pathParameters, ...init })
    // The document has the type of the response to this method and path; `Calls` names it.
    return response as T
  }
}

type Method = Call['method']
type Init = Omit<Call, 'method' | 'path' | 'pathParameters'>
