/** Collects the components of a document. Operations refer to them by name, as generated clients do. */
import { isDeepStrictEqual } from 'node:util'

export type Json = Record<string, unknown>

const SECTIONS = ['schemas', 'parameters', 'examples', 'responses', 'headers'] as const
type Section = (typeof SECTIONS)[number]

export class Components {
  readonly #sections = new Map(SECTIONS.map((section) => [section, new Map<string, Json>()]))

  /**
   * Adds a component. Returns the reference to it.
   * @throws Error if another component has this name
   */
  add(section: Section, name: string, component: Json): Json {
    const known = this.#sections.get(section)?.get(name)
    if (known && known !== component && !isDeepStrictEqual(known, component)) {
      throw new Error(
        `Two different ${section} have the name ${name}: ${JSON.stringify(known)} and ${JSON.stringify(component)}`,
      )
    }
    this.#sections.get(section)?.set(name, component)
    return { $ref: `#/components/${section}/${name}` }
  }

  /** Adds the component that `build` returns, unless there is one with this name. Returns the reference to it. */
  addOnce(section: Section, name: string, build: () => Json): Json {
    return this.add(section, name, this.#sections.get(section)?.get(name) ?? build())
  }

  /** Returns the sections, with the components of each sorted by name. */
  getAll(): Json {
    const sections = [...this.#sections].map(([section, components]) => {
      const sorted = [...components].sort(([a], [b]) => (a < b ? -1 : 1))
      return [section, Object.fromEntries(sorted)]
    })
    return Object.fromEntries(sections)
  }
}
