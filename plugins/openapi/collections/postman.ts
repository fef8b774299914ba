/** Writes sample requests as a Postman collection, in its format 2.1. */
import type { SampleParameter, SampleRequest, Samples } from './requests.ts'

const AUTH = {
  apiKey: {
    type: 'apikey',
    apikey: [
      { key: 'in', value: 'header', type: 'string' },
      { key: 'key', value: 'X-API-Key', type: 'string' },
      { key: 'value', value: '{{api_key}}', type: 'string' },
    ],
  },
  bearer: { type: 'bearer', bearer: [{ key: 'token', value: '{{access_token}}', type: 'string' }] },
  none: { type: 'noauth' },
}

const toDisabled = ({ name, value, description }: SampleParameter) => ({
  key: name,
  value,
  description,
  disabled: true,
})

/** Returns the script that runs after the response. */
const buildScript = ({ captures }: SampleRequest): string[] => [
  "pm.test('The request succeeds', () => pm.response.to.be.success)",
  ...captures.map(
    ({ variable, path }) => `pm.collectionVariables.set('${variable}', pm.response.json().${path})`,
  ),
]

const buildItem = (request: SampleRequest) => ({
  name: request.name,
  event: [{ listen: 'test', script: { type: 'text/javascript', exec: buildScript(request) } }],
  request: {
    description: request.description,
    method: request.method,
    // Without it, a request has the authorization of the collection.
    ...(request.credential !== 'apiKey' && { auth: AUTH[request.credential] }),
    header: [
      ...(request.body === undefined ? [] : [{ key: 'Content-Type', value: 'application/json' }]),
      ...request.headers.map(toDisabled),
    ],
    url: {
      raw: `{{base_url}}${request.path}`,
      host: ['{{base_url}}'],
      path: request.path.slice(1).split('/'),
      query: request.query.map(toDisabled),
    },
    ...(request.body !== undefined && {
      body: { mode: 'raw', raw: request.body, options: { raw: { language: 'json' } } },
    }),
  },
})

export const writePostmanCollection = ({ name, description, variables, folders }: Samples) => ({
  info: {
    name,
    description,
    schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json',
  },
  auth: AUTH.apiKey,
  variable: variables.map((variable) => ({ key: variable.name, value: variable.value, type: 'string' })),
  item: folders.map((folder) => ({ name: folder.name, item: folder.requests.map(buildItem) })),
})
