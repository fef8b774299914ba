/** The option `--schema`, which takes the place of the setting `DATABASE_SCHEMA`. */
import { type Config, readConfig } from '../config.ts'
import type { Command, Values } from './command.ts'

export const SCHEMA_OPTION: Command['options'][string] = {
  value: 'name',
  help: 'The schema of the tables, instead of DATABASE_SCHEMA',
}

/** Reads the settings. @throws ConfigError, also for the value of the option */
export const readSchemaConfig = ({ schema }: Values): Config =>
  readConfig(schema === undefined ? process.env : { ...process.env, DATABASE_SCHEMA: schema })
