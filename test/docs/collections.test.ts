/** The Postman and Bruno collections have every operation of the documents, and set each variable before its use. */
import t from 'tap'
import { type Json, testApp } from '../helpers/app.ts'
import { createReplyChecker } from '../helpers/reply-checker.ts'

interface Collection {
  variables: string[]
  /** Each request as JSON, with its variables, and the variables that are set from its response. */
  requests: { method: string; url: string; text: string; sets: string[] }[]
}

const readPostman = ({ variable, item }: Json): Collection => ({
  variables: variable.map(({ key }: Json) => key),
  requests: item
    .flatMap((folder: Json) => folder.item)
    .map(({ request, event }: Json) => ({
      ...{ method: request.method, url: request.url.raw, text: JSON.stringify(request) },
      sets: [...event[0].script.exec.join().matchAll(/set\('(\w+)'/g)].map(([, name]) => name),
    })),
})

const readBruno = ({ environments, items }: Json): Collection => ({
  variables: environments[0].variables.map(({ name }: Json) => name),
  requests: items
    .flatMap((folder: Json) => folder.items)
    .map(({ request }: Json) => ({
      ...{ method: request.method, url: request.url, text: JSON.stringify(request) },
      sets: request.vars.res.map(({ name }: Json) => name),
    })),
})

t.test('the collections', async (t) => {
  const { anybody, base } = await testApp(t)
  for (const version of [1, 2]) {
    const { operations } = createReplyChecker((await anybody.get(`/openapi/v${version}.json`)).body)
    for (const [format, read] of [
      ['postman', readPostman],
      ['bruno', readBruno],
    ] as const) {
      await t.test(`of version ${version} for ${format}`, async (t) => {
        const reply = await anybody.get(`/openapi/v${version}.${format}.json`)
        t.equal(
          reply.headers.get('content-disposition'),
          `attachment; filename="resource-api-v${version}.${format}.json"`,
        )
        t.ok(reply.text.includes(`"value":"${base}"`), 'names the server')
        const { variables, requests } = read(reply.body)
        const toKey = (method: string, path: string) => `${method.toUpperCase()} ${path}`
        t.same(
          requests.map(({ method, url }) => toKey(method, url.replaceAll(/\/\{\{\w+\}\}/g, '/{}'))).sort(),
          operations
            // The token of a completion is in a mail.
            .filter(({ operationId }) => !operationId.startsWith('complete'))
            .map(({ method, path }) => toKey(method, `{{base_url}}${path.replaceAll(/\{\w+\}/g, '{}')}`))
            .sort(),
          'has each operation once, but for completions',
        )
        const known = new Set(variables)
        for (const { method, url, text, sets } of requests) {
          for (const [, name = ''] of text.matchAll(/\{\{(\w+)\}\}/g)) {
            t.ok(known.has(name), `${method} ${url} follows the request that sets ${name}`)
          }
          for (const name of sets) known.add(name)
        }
      })
    }
  }
})
