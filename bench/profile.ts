/** `npx tsx bench/profile.ts FILE...`: ranks the functions of CPU profiles by their self time and total time. */
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

interface ProfileNode {
  id: number
  callFrame: { functionName: string; url: string; lineNumber: number }
  children?: number[]
}

interface Profile {
  nodes: ProfileNode[]
  samples: number[]
  timeDeltas: number[]
}

const root = fileURLToPath(new URL('..', import.meta.url))

function formatName({ callFrame: { functionName, url, lineNumber } }: ProfileNode): string {
  const file = url.startsWith('file:') ? relative(root, fileURLToPath(url)) : url
  const name = functionName || '(anonymous)'
  return file === '' ? name : `${name} ${file.replace(/^.*node_modules\//, '')}:${lineNumber + 1}`
}

/** Nodes of samples in which no JavaScript ran. */
const IDLE = new Set(['(idle)', '(root)'])

/** Returns the function or the package to which a sample is attributed, from its stack, innermost frame first. */
function findOwner(names: readonly string[]): string {
  const own = names.find((name) => / (dist|bench)\//.test(name))
  if (own !== undefined) return own
  const [leaf = ''] = names
  if (leaf.startsWith('(garbage') || leaf.startsWith('(program')) return leaf
  const library = names.find((name) => / (?!node:)[@\w]/.test(name))
  return library?.replace(/^.* ((?:@[^/]+\/)?[^/]+)\/.*$/, '$1') ?? 'Node.js'
}

/** Sums microseconds by function over the last share of the samples; before that, the server started and warmed up. */
function sumTimes({ nodes, samples, timeDeltas }: Profile, share: number) {
  const byId = new Map(nodes.map((node) => [node.id, { name: formatName(node), parent: 0 }]))
  for (const { id, children = [] } of nodes) {
    for (const child of children) {
      const node = byId.get(child)
      if (node) node.parent = id
    }
  }
  const [self, withCallees, byOwner] = [
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
    // Recursive functions are counted once.
    const names = new Set<string>()
    for (let node = byId.get(samples[i] ?? 0); node; node = byId.get(node.parent)) names.add(node.name)
    for (const name of names) add(withCallees, name, time)
    add(byOwner, findOwner([...names]), time)
  }
  return { self, withCallees, byOwner, total }
}

function print(title: string, times: Map<string, number>, total: number, cost: number, limit: number) {
  console.log(`\n${title}`)
  const sorted = [...times].sort((a, b) => b[1] - a[1]).slice(0, limit)
  for (const [name, time] of sorted) {
    const share = time / total
    console.log(
      `${(share * 100).toFixed(1).padStart(6)} %${(share * cost).toFixed(1).padStart(7)} us  ${name}`,
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
  const { self, withCallees, byOwner, total } = sumTimes(profile, Number(values.share))
  console.log(`${file}: us of ${values.cost} us per request`)
  print('self time', self, total, Number(values.cost), Number(values.most))
  print(
    'by the innermost function of this repository, else by package',
    byOwner,
    total,
    Number(values.cost),
    Number(values.most),
  )
  print('total time, with callees', withCallees, total, Number(values.cost), Number(values.most))
}
