/** Reads the rows of a resource whose access is decided for each row: those that the caller may read, in one version. */
import type { Actor } from '../../access/index.ts'
import type { Position } from '../cursors.ts'
import type { Row } from '../definition.ts'
import type { ListQuery } from '../request/list-query.ts'
import type { Page } from './read-page.ts'

export interface RowReader {
  /** @param position after which the page begins; undefined for the first page */
  readPage(actor: Actor, query: ListQuery, position: Position | undefined): Promise<Page>
  /** @throws ApiError 404; 403, or 404 with HIDE_FORBIDDEN, if the caller may not read the row */
  readRow(actor: Actor, id: string): Promise<Row>
}
