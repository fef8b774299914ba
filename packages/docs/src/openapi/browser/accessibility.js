/**
 * Repairs what Scalar 1.44 renders against WCAG 2.2 and ARIA: states and roles that an element may not have, controls
 * without a name, and parts that scroll but cannot be reached by the keyboard.
 */

/** The time between a change of the page and the repair, in ms: one for the many changes of a step. */
const DELAY_MS = 100

/**
 * Replaces the state of entries in the sidebar: `aria-selected` belongs to tabs and options.
 * @param {Element} button
 */
function repairState(button) {
  button.setAttribute('aria-current', String(button.getAttribute('aria-selected')))
  button.removeAttribute('aria-selected')
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
 * Names an editor of the request client: by its row and column, or as a body.
 * @param {Element} editor
 */
function nameEditor(editor) {
  const column = editor.closest('td [aria-label]')?.getAttribute('aria-label')?.split(' ').at(-1) ?? 'Body'
  editor.setAttribute('aria-label', `${editor.closest('tr')?.id ?? ''} ${column}`.trim())
}

/**
 * Hides the page behind the request client, a dialog with a `main` of its own.
 * @param {Element} main
 */
function hideBehindClient(main) {
  const isOpen = document.querySelector('.scalar-client[role=dialog]')?.checkVisibility()
  if (isOpen) main.setAttribute('aria-hidden', 'true')
  else main.removeAttribute('aria-hidden')
}

/** @type {readonly [string, (element: Element) => void][]} */
const repairs = [
  ['button[aria-selected]:not([role])', repairState],
  [':is(button[role=search], aside[role=navigation])', (element) => element.removeAttribute('role')],
  // The only text of its button.
  ['.sidebar-search-placeholder[aria-hidden]', (text) => text.removeAttribute('aria-hidden')],
  ['button.show-more[aria-label^="Show all"]', nameByText],
  ['button.scalar-code-copy:not([aria-label])', (button) => button.setAttribute('aria-label', 'Copy')],
  ['.scalar-card[role=region]', (card) => card.setAttribute('role', 'group')],
  ['[role=combobox]:not([aria-expanded])', (input) => input.setAttribute('aria-expanded', 'true')],
  ['[role=combobox]:not([aria-label])', (input) => input.setAttribute('aria-label', 'Filter')],
  ['button[role=none]', (button) => button.removeAttribute('role')],
  ['tr input[type=checkbox]:not([aria-label])', nameCheckbox],
  ['.cm-content:not([aria-label])', nameEditor],
  // Its element has another id.
  ['[role=dialog] button[class*=copy-button]', (button) => button.removeAttribute('aria-controls')],
  // Both the page and its request client have such a landmark.
  ['[role=dialog] > section[aria-label^=Notifications]', (part) => part.removeAttribute('aria-label')],
  ['.cm-content:not([tabindex])', (editor) => editor.setAttribute('tabindex', '0')],
  ['main.references-rendered', hideBehindClient],
  [':is(pre > code, .markdown table, ul.endpoints):not([tabindex])', reachScrolled],
]

function repairAll() {
  for (const [selector, repair] of repairs) {
    for (const element of document.querySelectorAll(selector)) repair(element)
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
    attributeFilter: ['aria-selected', 'style'],
  })
  addEventListener('resize', repairAll)
}
