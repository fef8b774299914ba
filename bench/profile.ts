/** `npx tsx bench/profile.ts FILE...`: where a CPU profile's time went, by function, alone and with all it calls. */
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

interface Node {
  id: number
  callFrame: { functionName: string; url: string; lineNumber: number }
  children?: number[]
}

interface Profile {
  nodes: Node[]
  samples: number[]
  timeDeltas: number[]
}

const root = fileURLToPath(new URL('..', import.meta.url))

function nameOf({ callFrame: { functionName, url, lineNumber } }: Node): string {
  const file = url.startsWith('file:') ? relative(root, fileURLToPath(url)) : url
  const name = functionName || '(anonymous)'
  return file === '' ? name : `${name} ${file.replace(/^.*node_modules\//, '')}:${lineNumber + 1}`
}

/** The process waited, or was not there yet. */
const IDLE = new Set(['(idle)', '(root)'])

/** Who a sample is charged to, of the names on its stack, the innermost first. */
function debtorOf(names: readonly string[]): string {
  const own = names.find((name) => / (dist|bench)\//.test(name))
  if (own !== undefined) return own
  const [leaf = ''] = names
  if (leaf.startsWith('(garbage') || leaf.startsWith('(program')) return leaf
  const foreign = names.find((name) => / (?!node:)[@\w]/.test(name))
  return foreign?.replace(/^.* ((?:@[^/]+\/)?[^/]+)\/.*$/, '$1') ?? 'Node.js'
}

/** Microseconds by function over the last share of the samples: before that the server started and warmed up. */
function weigh({ nodes, samples, timeDeltas }: Profile, share: number) {
  const byId = new Map(nodes.map((node) => [node.id, { name: nameOf(node), parent: 0 }]))
  for (const { id, children = [] } of nodes) {
    for (const child of children) {
      const found = byId.get(child)
      if (found) found.parent = id
    }
  }
  const [self, inclusive, charged] = [
    new Map<string, number>(),
    new Map<string, number>(),
    new Map<string, number>(),
  ]
  const add = (to: Map<string, number>, name: string, time: number) =>
    to.set(name, (to.get(name) ?? 0) + time)
  let total = 0
  for (let i = Math.floor(samples.length * (1 - share)); i < samples.length; i++) {
    const [time, leaf] = [timeDeltas[i] ?? 0, byId.get(samples[i] ?? 0)]
    if (!leaf || IDLE.has(leaf.name)) continue
    total += time
    add(self, leaf.name, time)
    // A function that calls itself is counted once.
    const names = new Set<string>()
    for (let node = byId.get(samples[i] ?? 0); node; node = byId.get(node.parent)) names.add(node.name)
    for (const name of names) add(inclusive, name, time)
    add(charged, debtorOf([...names]), time)
  }
  return { self, inclusive, charged, total }
}

function print(title: string, times: Map<string, number>, total: number, scale: number, most: number) {
  console.log(`\n${title}`)
  const sorted = [...times].sort((a, b) => b[1] - a[1]).slice(0, most)
  for (const [name, time] of sorted) {
    const part = time / total
    console.log(
      `${(part * 100).toFixed(1).padStart(6)} %${(part * scale).toFixed(1).padStart(7)} us  ${name}`,
    )
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    share: { type: 'string', default: '0.6' },
    cost: { type: 'string', default: '100' },
    most: { type: 'string', default: '40' },
  },
})
for (const file of positionals) {
  const profile: Profile = JSON.parse(readFileSync(file, 'utf8'))
  const { self, inclusive, charged, total } = weigh(profile, Number(values.share))
  console.log(`${file}: us are of ${values.cost} for a request`)
  print('alone', self, total, Number(values.cost), Number(values.most))
  print(
    'by the nearest function of our own, else by package',
    charged,
    total,
    Number(values.cost),
    Number(values.most),
  )
  print('with all it calls', inclusive, total, Number(values.cost), Number(values.most))
}
