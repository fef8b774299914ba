/** Replaces the storage that a browser blocks with one that ends with the page. Scalar does not start without it. */

/** @returns {Pick<Storage, 'getItem' | 'setItem' | 'removeItem' | 'clear'>} */
function createStorage() {
  /** @type {Map<string, string>} */
  const values = new Map()
  return {
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => void values.set(key, String(value)),
    removeItem: (key) => void values.delete(key),
    clear: () => values.clear(),
  }
}

for (const name of /** @type {const} */ (['localStorage', 'sessionStorage'])) {
  try {
    void globalThis[name]
  } catch {
    Object.defineProperty(globalThis, name, { value: createStorage() })
  }
}
