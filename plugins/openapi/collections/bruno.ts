/** Writes sample requests as a Bruno collection, in the JSON format of its export. */
import type { SampleParameter, SampleRequest, Samples } from './requests.ts'

const AUTH = {
  apiKey: { mode: 'inherit' },
  bearer: { mode: 'bearer', bearer: { token: '{{access_token}}' } },
  none: { mode: 'none' },
}

const toDisabled = (parameter: SampleParameter) => ({ ...parameter, enabled: false })

const buildItem = (request: SampleRequest, i: number) => ({
  type: 'http',
  name: request.name,
  seq: i + 1,
  request: {
    url: `{{base_url}}${request.path}`,
    method: request.method,
    headers: request.headers.map(toDisabled),
    params: request.query.map((parameter) => ({ ...toDisabled(parameter), type: 'query' })),
    body: request.body === undefined ? { mode: 'none' } : { mode: 'json', json: request.body },
    auth: AUTH[request.credential],
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

export const writeBrunoCollection = ({ name, description, variables, folders }: Samples) => ({
  name,
  version: '1',
  items: folders.map((folder, i) => ({
    type: 'folder',
    name: folder.name,
    seq: i + 1,
    // The order of folders is in the file of each.
    root: { meta: { name: folder.name, seq: i + 1 } },
    items: folder.requests.map(buildItem),
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
