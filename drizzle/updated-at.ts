/**
 * Returns the expression of the time of an update: later than that of the update before, also if the clock is set back.
 * PostgreSQL may evaluate it anywhere: the only part that is not immutable has no argument. Citus, which sends a statement
 * to the node of its row, accepts neither `clock_timestamp()` nor `updated_at + interval '...'`.
 * @param column the column `updated_at`, qualified if the statement has more than one
 */
export const getNextUpdatedAt = (column = 'updated_at'): string =>
  `greatest(statement_timestamp(), (${column} at time zone 'UTC' + interval '1 microsecond') at time zone 'UTC')`
