/**
 * Declares the sequences and enums of the packages and of others for `drizzle-kit push`, and nothing for its other commands.
 * drizzle-kit loads this file as CommonJS, after the configuration, and reads as many exports as there are.
 */
import { getOthers } from '../drizzle-config.ts'

module.exports = getOthers()
