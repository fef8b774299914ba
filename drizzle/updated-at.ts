/**
 * Returns the expression of the time of an update: later than that of the update before, also if the clock is set back.
 * In an UPDATE, Citus accepts no volatile function (`clock_timestamp()`), and no stable one that has a column as argument
 * (`timestamptz + interval`): `at time zone 'UTC'` makes the addition immutable.
 * @param column the column `updated_at`, qualified if the statement has more than one
 */
export const getNextUpdatedAt = (column = 'updated_at'): string =>
  `greatest(statement_timestamp(), (${column} at time zone 'UTC' + interval '1 microsecond') at time zone 'UTC')`
