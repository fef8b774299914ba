/** A strict parser of Prometheus' text format (0.0.4). */

interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

export interface Family {
  name: string
  help: string
  type: string
  samples: Sample[]
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {}
  let rest = text
  while (rest !== '') {
    const [all, name = '', value = ''] = LABEL.exec(rest) ?? []
    if (all === undefined) throw new Error(`No label: ${rest}`)
    if (name in labels) throw new Error(`Duplicate label: ${text}`)
    labels[name] = value
    rest = rest.slice(all.length)
  }
  return labels
}

function parseValue(text: string): number {
  const value = text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text)
  if (Number.isNaN(value) && !/^nan$/i.test(text)) throw new Error(`No value: ${text}`)
  return value
}

/** Returns the metric families by name; throws if the lines of one are not together. */
export function parseExposition(text: string): Map<string, Family> {
  const families = new Map<string, Family>()
  let current: Family | undefined
  if (!text.endsWith('\n')) throw new Error('The last line has no line feed')
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, word, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (word === 'HELP') {
      if (families.has(name)) throw new Error(`Duplicate metric ${name}`)
      current = { name, help: rest, type: '', samples: [] }
      families.set(name, current)
    } else if (word === 'TYPE') {
      if (current?.name !== name) throw new Error(`TYPE of ${name} without its HELP`)
      current.type = rest
    } else {
      const [, sample = '', labels = '', value = ''] = SAMPLE.exec(line) ?? []
      if (!current || !sample.startsWith(current.name)) throw new Error(`Out of place: ${line}`)
      current.samples.push({ name: sample, labels: parseLabels(labels), value: parseValue(value) })
    }
  }
  return families
}

/** Returns the sum of a family's samples with the given labels. */
export function sumSamples(
  families: Map<string, Family>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const found = [...families.values()].flatMap(({ samples }) => samples.filter((each) => each.name === name))
  return found
    .filter((each) => Object.entries(labels).every(([label, value]) => each.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0)
}
