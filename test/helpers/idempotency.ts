/** Requests with an Idempotency-Key and comparison of their replies. */
import { v7 as uuid } from 'uuid'
import type { Reply } from './app.ts'

/** Returns an Idempotency-Key header with a new key. */
export const createKeyHeader = (): { 'idempotency-key': string } => ({ 'idempotency-key': uuid() })

/** Returns the parts of a reply that a replay repeats. */
export const pickReplayedParts = ({ status, headers, text }: Reply) => ({
  status,
  text,
  location: headers.get('location'),
  etag: headers.get('etag'),
})

export const isReplayed = ({ headers }: Reply) => headers.get('idempotency-replayed') === 'true'
