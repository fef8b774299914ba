/** Which database this is: a standby has the system identifier of its primary. */
export const IDENTITY_SQL = `current_database()::text || '/' || (select system_identifier from pg_control_system())`
