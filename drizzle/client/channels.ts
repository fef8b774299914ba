/** What the database room tells who listens, such as metrics: it does not know who they are. */
import { channel } from 'node:diagnostics_channel'

const waited = channel('resource-api:database:wait')

/** That a statement or a transaction had to wait for its connection. */
export function tellWait(milliseconds: number): void {
  if (waited.hasSubscribers) waited.publish({ milliseconds })
}
