/** The links of the Markdown files point to existing files and headings. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

const root = new URL('../../', import.meta.url)
const FOLDERS = ['', 'docs/', 'deploy/', 'bench/', 'client/', '.github/']

const documents = FOLDERS.filter((folder) => existsSync(new URL(folder, root))).flatMap((folder) =>
  readdirSync(new URL(folder, root))
    .filter((name) => name.endsWith('.md'))
    .map((name) => folder + name),
)

/** Returns the text of a document without its code, in which brackets are no links and `#` begins no heading. */
const readProse = (path: URL) => readFileSync(path, 'utf8').replace(/^```[\s\S]*?^```$/gm, '')

/** Returns the anchors that GitHub gives the headings of a document. */
function getAnchors(path: URL): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of readProse(path).matchAll(/^#{1,6} +(.+)$/gm)) {
    const text = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const slug = text.replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '').replaceAll(' ', '-')
    let anchor = slug
    for (let n = 1; anchors.has(anchor); n++) anchor = `${slug}-${n}`
    anchors.add(anchor)
  }
  return anchors
}

t.ok(documents.includes('README.md') && documents.includes('docs/architecture.md'))

for (const document of documents) {
  t.test(`every link of ${document} has a target`, async (t) => {
    const here = new URL(document, root)
    for (const [, link = ''] of readProse(here).matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g)) {
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? here : new URL(path, here)
      if (!t.ok(existsSync(target), `${link}: the file exists`) || anchor === undefined) continue
      t.ok(getAnchors(target).has(anchor), `${link}: the heading exists`)
    }
  })
}
