/** The documents of this application: for the command `openapi`, and for what describes it. */
import {
  buildDocumentApp as build,
  createOpenapiCommand,
  renderDocuments as render,
} from '@resource-api/docs/commands'
import { versions } from '../plugins/versions.ts'

/** Loaded when it is needed: no other command needs the whole service. */
const loadApp = async () => (await import('./app.ts')).buildApp

export const versionNumbers = versions.map(({ representation }) => representation.version)

export const buildDocumentApp = async () => build(await loadApp())

export const renderDocuments = async (wanted: readonly number[]) => render(await loadApp(), wanted)

export const openapi = createOpenapiCommand(loadApp, versionNumbers)
