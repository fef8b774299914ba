/** Writes with an Idempotency-Key, and what must be the same about their replies. */
import { v7 as uuid } from 'uuid'
import type { Reply } from './app.ts'

/** A header that nobody has sent before. */
export const createKeyHeader = (): { 'idempotency-key': string } => ({ 'idempotency-key': uuid() })

/** What a client sees of a reply that may be told again. */
export const pickReplayedParts = ({ status, headers, text }: Reply) => ({
  status,
  text,
  location: headers.get('location'),
  etag: headers.get('etag'),
})

export const isReplayed = ({ headers }: Reply) => headers.get('idempotency-replayed') === 'true'
