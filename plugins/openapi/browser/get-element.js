/** Finds an element of the page. */

/**
 * Returns the element with an id.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type the class of the element
 * @returns {T}
 */
export function getElement(id, type) {
  const element = document.getElementById(id)
  if (!(element instanceof type)) throw new Error(`The page has no ${type.name} with the id ${id}`)
  return element
}
