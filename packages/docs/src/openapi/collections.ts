/** Writes sample requests as a Postman collection, in its format 2.1, and as a Bruno collection, in its JSON format. */
import type { SampleParameter, SampleRequest, Samples } from './sample-requests.ts'

const POSTMAN_AUTH = {
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

const toPostmanParameter = ({ name, value, description }: SampleParameter) => ({
  key: name,
  value,
  description,
  disabled: true,
})

/** Returns the script that runs after the response. */
const buildPostmanScript = ({ captures }: SampleRequest): string[] => [
  "pm.test('The request succeeds', () => pm.response.to.be.success)",
  ...captures.map(
    ({ variable, path }) => `pm.collectionVariables.set('${variable}', pm.response.json().${path})`,
  ),
]

const buildPostmanItem = (request: SampleRequest) => ({
  name: request.name,
  event: [{ listen: 'test', script: { type: 'text/javascript', exec: buildPostmanScript(request) } }],
  request: {
    description: request.description,
    method: request.method,
    // Without it, a request has the authorization of the collection.
    ...(request.credential !== 'apiKey' && { auth: POSTMAN_AUTH[request.credential] }),
    header: [
      ...(request.body === undefined ? [] : [{ key: 'Content-Type', value: 'application/json' }]),
      ...request.headers.map(toPostmanParameter),
    ],
    url: {
      raw: `{{base_url}}${request.path}`,
      host: ['{{base_url}}'],
      path: request.path.slice(1).split('/'),
      query: request.query.map(toPostmanParameter),
    },
    ...(request.body !== undefined && {
      body: { mode: 'raw', raw: request.body, options: { raw: { language: 'json' } } },
    }),
  },
})

const writePostman = ({ name, description, variables, folders }: Samples) => ({
  info: {
    name,
    description,
    schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json',
  },
  auth: POSTMAN_AUTH.apiKey,
  variable: variables.map((variable) => ({ key: variable.name, value: variable.value, type: 'string' })),
  item: folders.map((folder) => ({ name: folder.name, item: folder.requests.map(buildPostmanItem) })),
})

const BRUNO_AUTH = {
  apiKey: { mode: 'inherit' },
  bearer: { mode: 'bearer', bearer: { token: '{{access_token}}' } },
  none: { mode: 'none' },
}

const toBrunoParameter = (parameter: SampleParameter) => ({ ...parameter, enabled: false })

const buildBrunoItem = (request: SampleRequest, i: number) => ({
  type: 'http',
  name: request.name,
  seq: i + 1,
  request: {
    url: `{{base_url}}${request.path}`,
    method: request.method,
    headers: request.headers.map(toBrunoParameter),
    params: request.query.map((parameter) => ({ ...toBrunoParameter(parameter), type: 'query' })),
    body: request.body === undefined ? { mode: 'none' } : { mode: 'json', json: request.body },
    auth: BRUNO_AUTH[request.credential],
    script: {},
    vars: {
      req: [],
      res: request.captures.map(({ variable, path }) => ({
        name: variable,
        value: `res.body.${path}`,
        enabled: true,
        local: false,
      })),
    },
    assertions: [{ name: 'res.status', value: 'lt 300', enabled: true }],
    tests: '',
    docs: request.description,
  },
})

const writeBruno = ({ name, description, variables, folders }: Samples) => ({
  name,
  version: '1',
  items: folders.map((folder, i) => ({
    type: 'folder',
    name: folder.name,
    seq: i + 1,
    // The order of folders is in the file of each.
    root: { meta: { name: folder.name, seq: i + 1 } },
    items: folder.requests.map(buildBrunoItem),
  })),
  root: {
    request: {
      auth: { mode: 'apikey', apikey: { key: 'X-API-Key', value: '{{api_key}}', placement: 'header' } },
    },
    docs: description,
  },
  environments: [
    {
      name: 'Server',
      variables: variables.map((variable) => ({
        ...variable,
        type: 'text',
        enabled: true,
        secret: variable.name === 'api_key',
      })),
    },
  ],
})

export const collectionWriters = { postman: writePostman, bruno: writeBruno }
