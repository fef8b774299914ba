/**
 * Repairs what Scalar 1.44 renders against WCAG 2.2 and ARIA: states and roles that an element may not have, controls
 * without a name, and parts that scroll but cannot be reached by the keyboard.
 */

/** The time between a change of the page and the repair, in ms: one for the many changes of a step. */
const DELAY_MS = 100

/**
 * Replaces the state of entries in the sidebar: `aria-selected` belongs to tabs and options.
 * @param {Element} entry
 */
function repairState(entry) {
  entry.setAttribute('aria-current', String(entry.getAttribute('aria-selected')))
  entry.removeAttribute('aria-selected')
}

/**
 * Begins the name of a button with its visible text.
 * @param {Element} button
 */
function nameByText(button) {
  const group = button.getAttribute('aria-label')?.replace(/^Show all /, '')
  button.setAttribute('aria-label', `${button.textContent?.trim()}: ${group}`)
}

/**
 * Lets the keyboard scroll a part.
 * @param {Element} part
 */
function reachScrolled(part) {
  const isScrolled = part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight
  if (isScrolled) part.setAttribute('tabindex', '0')
}

/**
 * Names the checkbox of a row of the request client.
 * @param {Element} checkbox
 */
function nameCheckbox(checkbox) {
  checkbox.setAttribute('aria-label', `Send ${checkbox.closest('tr')?.id || 'this'}`)
}

/**
 * Names a menu of values in the request client, which has no text before one is chosen, by its row.
 * @param {Element} button
 */
function nameValues(button) {
  const name = `${button.closest('tr')?.id ?? ''} ${button.textContent?.trim()}`.trim()
  // A change to the same value would start the next repair.
  if (name !== button.getAttribute('aria-label')) button.setAttribute('aria-label', name)
}

/**
 * Names an editor: by the label in its cell, by its row and column, or as a body.
 * @param {Element} editor
 */
function nameEditor(editor) {
  const label = editor.closest('td')?.querySelector('label')?.textContent?.trim()
  if (label) return editor.setAttribute('aria-label', `${label} of the header`)
  const column = editor.closest('td [aria-label]')?.getAttribute('aria-label')?.split(' ').at(-1) ?? 'Body'
  editor.setAttribute('aria-label', `${editor.closest('tr')?.id ?? ''} ${column}`.trim())
}

/**
 * Hides the page behind the request client, a dialog with a `main` of its own.
 * @param {Element} main
 */
function hideBehindClient(main) {
  const isOpen = document.querySelector('.scalar-client[role=dialog]')?.checkVisibility() ?? false
  // A change to the same value would start the next repair.
  if (isOpen === main.hasAttribute('aria-hidden')) return
  if (isOpen) main.setAttribute('aria-hidden', 'true')
  else main.removeAttribute('aria-hidden')
}

/** @typedef {Record<string, string | null>} Attributes the values to set, or null to remove the attribute */

/** @type {readonly [selector: string, repair: Attributes | ((element: Element) => void)][]} */
const repairs = [
  // A list of one tab and a menu, of which both choose the language of the samples. The text of the menu is hidden on phones.
  ['.client-libraries-list[role=tablist]', { role: 'group', 'aria-orientation': null }],
  ['.client-libraries[role=tab]', { role: null, 'aria-selected': null, 'aria-pressed': 'true' }],
  ['.client-libraries__select:not([aria-label])', { 'aria-label': 'More languages' }],
  ['[aria-selected]:not([role])', repairState],
  // An open menu, which is outside the landmarks, and the two elements at its ends, whose focus moves on immediately.
  ['[id^=headlessui-popover-panel]:not([role])', { role: 'dialog', 'aria-label': 'Menu' }],
  ['[data-headlessui-focus-guard][aria-hidden]', { 'aria-hidden': null, 'aria-label': 'Leave the menu' }],
  // An empty group of options.
  ['[role=listbox] > div:not([role])', { role: 'group' }],
  [':is(button[role=search], aside[role=navigation], button[role=none])', { role: null }],
  // The only text of its button.
  ['.sidebar-search-placeholder[aria-hidden]', { 'aria-hidden': null }],
  ['button.show-more[aria-label^="Show all"]', nameByText],
  ['button.scalar-code-copy:not([aria-label])', { 'aria-label': 'Copy' }],
  ['.scalar-card[role=region]', { role: 'group' }],
  ['[role=combobox]:not([aria-expanded])', { 'aria-expanded': 'true' }],
  ['[role=combobox]:not([aria-label])', { 'aria-label': 'Filter' }],
  // Characters that look like a key. All that a reader enters is left of it.
  ['input[placeholder^=QUxM]', { placeholder: 'Your credential' }],
  ['tr input[type=checkbox]:not([aria-label])', nameCheckbox],
  ['tr button[aria-haspopup=menu]', nameValues],
  ['.cm-content:not([aria-label])', nameEditor],
  // Its element has another id.
  ['[role=dialog] button[class*=copy-button][aria-controls]', { 'aria-controls': null }],
  // Both the page and its request client have such a landmark.
  ['[role=dialog] > section[aria-label^=Notifications]', { 'aria-label': null }],
  ['.cm-content:not([tabindex])', { tabindex: '0' }],
  // The status of a response, which links a page of another host.
  ['a[href^="https://developer.mozilla.org/"]', { href: null, style: 'text-decoration: none' }],
  ['main.references-rendered', hideBehindClient],
  [':is(pre > code, .markdown table, ul.endpoints):not([tabindex])', reachScrolled],
]

/**
 * @param {Element} element
 * @param {Attributes} attributes
 */
function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) element.removeAttribute(name)
    else element.setAttribute(name, value)
  }
}

function repairAll() {
  for (const [selector, repair] of repairs) {
    for (const element of document.querySelectorAll(selector)) {
      if (typeof repair === 'function') repair(element)
      else setAttributes(element, repair)
    }
  }
}

/** Repairs the page after each of its changes. The request client is always there, and shown by its style. */
export function startRepairs() {
  let isPlanned = false
  const planRepair = () => {
    if (isPlanned) return
    isPlanned = true
    setTimeout(() => {
      isPlanned = false
      repairAll()
    }, DELAY_MS)
  }
  const observer = new MutationObserver(planRepair)
  observer.observe(document.body, {
    subtree: true,
    childList: true,
    attributeFilter: ['aria-hidden', 'aria-label', 'aria-selected', 'role', 'style'],
  })
  addEventListener('resize', repairAll)
}
