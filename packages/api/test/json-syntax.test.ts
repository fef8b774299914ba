/** The place of an error in a text that is no JSON. */
import t from 'tap'
import { findSyntaxError } from '../src/requests/json-syntax.ts'

t.test('the place of a syntax error is its line and column', async (t) => {
  const places: [text: string, place: string][] = [
    ['{"a": 1,}', '1:9'],
    ['{"a" 1}', '1:6'],
    ['{\n  "a": 1,\n  "b": nul\n}', '3:8'],
    ['{\r\n"a": 1 "b": 2}', '2:8'],
    ["{'a': 1}", '1:2'],
    ['{"a": "b', '1:7'],
    ['{"a": "\\x"}', '1:7'],
    ['[1, 2', '1:6'],
    ['[1,]', '1:4'],
    ['{"a": 01}', '1:8'],
    ['{"a": 1} {}', '1:10'],
    ['// no comment\n{}', '1:1'],
    [' ', '1:2'],
  ]
  for (const [text, expected] of places) {
    t.throws(() => JSON.parse(text), text)
    const place = findSyntaxError(text)
    t.equal(`${place?.line}:${place?.column}`, expected, text)
  }
  for (const text of ['{"a": [1, null, "\\u00e9", -1.5e3, true, {}]}', '"x"', '0'])
    t.equal(findSyntaxError(text), undefined, text)
})

t.test('the search takes time in proportion to the text', async (t) => {
  const took = (length: number) => {
    const began = process.cpuUsage()
    for (const sign of ['x', '"', '\\', '1 ', '/'])
      findSyntaxError(sign.repeat(length / sign.length).slice(0, length))
    return process.cpuUsage(began).user
  }
  took(4_096)
  t.ok(
    took(32_768) < 40 * Math.max(took(4_096), 2_000),
    'eight times the text takes about eight times as long',
  )
})
