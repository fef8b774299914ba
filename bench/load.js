/** What autocannon sends where there is no wrk: the same requests, the same numbers, the same last line. */
import { readFileSync } from 'node:fs'
import autocannon from 'autocannon'

const [url, connections, seconds, file, first] = process.argv.slice(2)

const BLANK = '#########'
let number = Number(first)

const requests = readFileSync(file, 'utf8')
  .split('\0')
  .map((text) => {
    const [head, body] = text.split('\r\n\r\n')
    const [line, ...fields] = head.split('\r\n')
    const [method, path] = line.split(' ')
    const headers = Object.fromEntries(fields.map((field) => field.split(': ')))
    return { method, path, headers, ...(body && { body }) }
  })

function next() {
  const chosen = requests[Math.floor(Math.random() * requests.length)]
  if (!chosen.body?.includes(BLANK)) return chosen
  number += 1
  return { ...chosen, body: chosen.body.replaceAll(BLANK, String(number)) }
}

const result = await autocannon({
  url,
  connections: Number(connections),
  duration: Number(seconds),
  requests: [{ setupRequest: next }],
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
