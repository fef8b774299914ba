/** Sets the theme of the page: that of the system until the reader chooses one. Scalar reads the same item and classes. */

/** The item of the local storage in which Scalar keeps the theme, too. */
const ITEM = 'colorMode'
const systemPrefersDark = matchMedia('(prefers-color-scheme: dark)')

function isDark() {
  const chosen = localStorage.getItem(ITEM)
  return chosen === 'dark' || (chosen !== 'light' && systemPrefersDark.matches)
}

function applyTheme() {
  const dark = isDark()
  document.body.classList.toggle('dark-mode', dark)
  document.body.classList.toggle('light-mode', !dark)
  document.getElementById('theme')?.setAttribute('aria-pressed', String(dark))
}

applyTheme()
// Scalar changes the classes as well, in a listener that is added later and runs later.
systemPrefersDark.addEventListener('change', () => setTimeout(applyTheme))
document.getElementById('theme')?.addEventListener('click', () => {
  localStorage.setItem(ITEM, isDark() ? 'light' : 'dark')
  applyTheme()
})
