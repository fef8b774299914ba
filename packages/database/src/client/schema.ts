/** The schema of the tables, which a search path selects: statements name tables without it. */
export const DEFAULT_SCHEMA = 'public'

/** Returns the search path of the connections; undefined for the default schema, with which each role has its own. */
export const getSearchPath = (schema: string): string | undefined =>
  schema === DEFAULT_SCHEMA ? undefined : `"${schema}"`
