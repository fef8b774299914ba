/** Sends with autocannon the requests that load.lua sends with wrk, and prints the same last line. */
import { readFileSync } from 'node:fs'
import autocannon from 'autocannon'

const [url, connections, seconds, file, firstNumber] = process.argv.slice(2)

const PLACEHOLDER = '#########'
let number = Number(firstNumber)

const requests = readFileSync(file, 'utf8')
  .split('\0')
  .map((text) => {
    const [head, body] = text.split('\r\n\r\n')
    const [requestLine, ...fields] = head.split('\r\n')
    const [method, path] = requestLine.split(' ')
    const headers = Object.fromEntries(fields.map((field) => field.split(': ')))
    return { method, path, headers, ...(body && { body }) }
  })

function createRequest() {
  const request = requests[Math.floor(Math.random() * requests.length)]
  if (!request.body?.includes(PLACEHOLDER)) return request
  number += 1
  return { ...request, body: request.body.replaceAll(PLACEHOLDER, String(number)) }
}

const result = await autocannon({
  url,
  connections: Number(connections),
  duration: Number(seconds),
  requests: [{ setupRequest: createRequest }],
})

console.log(
  JSON.stringify({
    requests: result.requests.total,
    seconds: result.duration,
    refused: result['4xx'] + result['5xx'],
    broken: result.errors + result.timeouts,
    p50: result.latency.p50,
    p99: result.latency.p99,
  }),
)
