/** The account of the page: the form to sign in, the name of the active credential, and the button to sign out. */
import { changes, readCredential } from './credential.js'
import { SignInError } from './session.js'

/** @import { Sessions } from './session.js' */

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

/** @param {Sessions} sessions */
export function startAccount(sessions) {
  const dialog = getElement('sign-in', HTMLDialogElement)
  const form = getElement('sign-in-form', HTMLFormElement)
  const submit = getElement('sign-in-submit', HTMLButtonElement)
  const failure = getElement('sign-in-error', HTMLElement)
  const open = getElement('sign-in-open', HTMLButtonElement)
  const close = getElement('sign-in-close', HTMLButtonElement)
  const signOut = getElement('sign-out', HTMLButtonElement)
  const account = getElement('account', HTMLElement)

  /** @param {string} name */
  const read = (name) => String(new FormData(form).get(name) ?? '')

  /** Shows the fields of the chosen method. The others are disabled, so that they are neither required nor sent. */
  function showFields() {
    const method = read('method')
    for (const group of form.querySelectorAll('fieldset[data-method]')) {
      if (!(group instanceof HTMLFieldSetElement)) continue
      group.disabled = group.dataset.method !== method
      group.hidden = group.disabled
    }
    failure.textContent = ''
  }

  function showAccount() {
    const credential = readCredential()
    account.textContent = credential?.label ?? ''
    account.title = credential?.label ?? ''
    open.hidden = credential !== undefined
    signOut.hidden = credential === undefined
  }

  async function submitForm() {
    const method = read('method')
    if (method === 'password') await sessions.signIn(read('email').trim(), read('password'))
    if (method === 'api-key') await sessions.use('api-key', read('key').trim())
    if (method === 'token') await sessions.use('token', read('token').trim())
  }

  form.addEventListener('change', (event) => {
    if (event.target instanceof HTMLInputElement && event.target.name === 'method') showFields()
  })
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    failure.textContent = ''
    submit.disabled = true
    try {
      await submitForm()
      dialog.close()
      // The button that opened the form is hidden now.
      signOut.focus()
    } catch (error) {
      failure.textContent = error instanceof SignInError ? error.message : 'Signing in has failed.'
    } finally {
      submit.disabled = false
    }
  })
  open.addEventListener('click', () => {
    showFields()
    dialog.showModal()
  })
  close.addEventListener('click', () => dialog.close())
  // Passwords and keys do not stay in the form.
  dialog.addEventListener('close', () => form.reset())
  signOut.addEventListener('click', async () => {
    await sessions.signOut()
    open.focus()
  })
  changes.addEventListener('change', showAccount)
  showAccount()
}
