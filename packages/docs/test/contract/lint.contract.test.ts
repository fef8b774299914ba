/** Spectral (rules for OpenAPI and OWASP) and Redocly report nothing in either document. */
import t from 'tap'
import { saveDocument, startFreshServer } from './documents.ts'
import { runTool } from './run-tool.ts'

t.test('the linters report no errors', async (t) => {
  // The rules require HTTPS.
  const baseUrl = await startFreshServer(t, { PUBLIC_URL: 'https://resource-api.test' })
  for (const version of ['v1', 'v2'] as const) {
    const document = await saveDocument(baseUrl, version, 'lint')
    const spectral = ['lint', '--ruleset', 'spectral.yaml', '--fail-severity', 'hint', '--quiet', document]
    t.match(await runTool('spectral', spectral), { code: 0 }, `Spectral: ${version}`)
    const redocly = ['lint', '--config', 'redocly.yaml', document]
    t.match(await runTool('redocly', redocly), { code: 0 }, `Redocly: ${version}`)
  }
})
