/** Renders the HTML of the documentation page: the header with the account and the theme, and the place of Scalar. */
import { identity } from '../../lib/identity.ts'
import { escapeHtml } from './escape-html.ts'
import { ICON } from './icon.ts'
import { PAGE_STYLE } from './page-style.ts'

const TITLE = `${identity.title}: API reference`
const DESCRIPTION =
  'The reference of the API: authentication, pagination, filtering, idempotency, errors, versions, limits, and every operation with examples.'

/** JSON that can stand in a script element, which ends at `</script`. */
const toScriptJson = (value: unknown) => JSON.stringify(value).replaceAll('<', '\\u003c')

const METHODS = [
  { value: 'password', label: 'E-mail and password' },
  { value: 'api-key', label: 'API key' },
  { value: 'token', label: 'Access token' },
]

const renderMethod = ({ value, label }: (typeof METHODS)[number], i: number) =>
  `<label class="method"><input type="radio" name="method" value="${value}"${i === 0 ? ' checked' : ''}> ${label}</label>`

const renderField = (label: string, attributes: string) =>
  `<label class="field">${label}<input ${attributes} required></label>`

const signInForm = `
<dialog id="sign-in" class="sign-in" aria-labelledby="sign-in-title">
<form id="sign-in-form">
<h2 id="sign-in-title">Sign in</h2>
<fieldset><legend>With</legend>${METHODS.map(renderMethod).join('')}</fieldset>
<fieldset data-method="password">
${renderField('E-mail', 'name="email" type="email" autocomplete="username"')}
${renderField('Password', 'name="password" type="password" autocomplete="current-password"')}
</fieldset>
<fieldset data-method="api-key" hidden disabled>
${renderField('API key', 'name="key" type="password" autocomplete="off"')}
</fieldset>
<fieldset data-method="token" hidden disabled>
${renderField('Access token', 'name="token" type="password" autocomplete="off"')}
</fieldset>
<p id="sign-in-error" class="failure" role="alert"></p>
<div class="actions">
<button id="sign-in-close" type="button">Cancel</button>
<button id="sign-in-submit" type="submit" class="primary">Sign in</button>
</div>
</form>
</dialog>`.trim()

const themeButton = `
<button id="theme" class="icon" type="button" aria-label="Dark theme" title="Switch between the light and the dark theme">
<svg class="moon" viewBox="0 0 16 16" aria-hidden="true"><path d="M13.5 9.8A6 6 0 1 1 6.2 2.5a4.8 4.8 0 0 0 7.3 7.3z" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round"/></svg>
<svg class="sun" viewBox="0 0 16 16" aria-hidden="true"><g fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round"><circle cx="8" cy="8" r="3"/><path d="M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1"/></g></svg>
</button>`.trim()

/** @param configuration what the script of the page reads */
export const renderPage = (configuration: unknown): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(TITLE)}</title>
<meta name="description" content="${escapeHtml(DESCRIPTION)}">
<meta property="og:type" content="website">
<meta property="og:title" content="${escapeHtml(TITLE)}">
<meta property="og:description" content="${escapeHtml(DESCRIPTION)}">
<meta name="theme-color" content="#ffffff" media="(prefers-color-scheme: light)">
<meta name="theme-color" content="#0f0f0f" media="(prefers-color-scheme: dark)">
<link rel="icon" href="${ICON}">
<style>${PAGE_STYLE}</style>
</head>
<body>
<header class="bar">
<a class="brand" href="../" aria-label="${escapeHtml(identity.title)}: start page"><img src="${ICON}" alt=""><span>${escapeHtml(identity.title)}</span></a>
<p id="account" class="account" role="status"></p>
<button id="sign-in-open" type="button" class="primary">Sign in</button>
<button id="sign-out" type="button" hidden>Sign out</button>
${themeButton}
</header>
<script src="js/theme.js"></script>
${signInForm}
<div id="app"></div>
<noscript><p>This page needs JavaScript. The same content is in the OpenAPI documents, which <a href="../">the start page</a> links.</p></noscript>
<script id="configuration" type="application/json">${toScriptJson(configuration)}</script>
<script src="js/scalar.js" defer></script>
<script src="js/page.js" type="module"></script>
</body>
</html>
`
