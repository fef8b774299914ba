/** The handlers of a collection's routes, and what they are created with. */
import type { FastifyReply, FastifyRequest, RouteGenericInterface } from 'fastify'
import type { ListQuery, Selection } from './query.ts'

export interface CollectionOptions {
  /** Signs cursors; the same on every replica of the service. */
  cursorKey: Buffer
  publicUrl: string | undefined
  requireIfMatch: boolean
  /** The days for which events are kept; 0 for all. */
  retentionDays: number
  /** Returns whether batches and imports can write the collection. */
  isBatched(resource: { name: string }): boolean
}

export type Handler<Route extends RouteGenericInterface = RouteGenericInterface> = (
  request: FastifyRequest<Route>,
  reply: FastifyReply,
) => Promise<unknown>

/** Handlers get requests as the schemas of their routes say: see `checkRequest`. */
export type ListHandler = Handler<{ Querystring: ListQuery }>
export type ReadHandler = Handler<{ Querystring: Selection }>

/** Fastify types a handler by the schema of its route; both come from the same function. */
export type AnyHandler = Handler<{ Querystring: never; Body: never }>
