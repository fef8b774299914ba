/** The size of an event, by which statements that read many events are bounded. */

/**
 * SQL for the bytes of the resource in a row of `events`. Rows from before the column `bytes` have 0 there, as do those
 * that a process of the former version inserts during an update: they are measured, for which PostgreSQL reads them.
 */
export const EVENT_BYTES = `case events.bytes
  when 0 then octet_length(events.columns::text) + coalesce(octet_length(events.previous::text), 0)
  else events.bytes end`
