/** Renders the HTML of the documentation page: its header with the account and the theme, the form to sign in, Scalar. */
import { identity } from '@resource-api/database'
import { escapeHtml, ICON, renderDocument } from './html.ts'

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

const renderSignInForm = (resetUrl: string | undefined) =>
  `
<dialog id="sign-in" class="sign-in" aria-labelledby="sign-in-title">
<form id="sign-in-form">
<h2 id="sign-in-title">Sign in</h2>
<fieldset><legend>With</legend>${METHODS.map(renderMethod).join('')}</fieldset>
<fieldset data-method="password">
${renderField('E-mail', 'name="email" type="email" autocomplete="username"')}
${renderField('Password', 'name="password" type="password" autocomplete="current-password"')}
${resetUrl === undefined ? '' : `<p class="reset"><a href="${escapeHtml(resetUrl)}">Forgot password?</a></p>`}
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

/**
 * Both themes in the colors of Scalar, whose variables exist only once its script has run. Text has a contrast of at
 * least 4.5:1 and the borders of fields one of 3:1 (WCAG 2.2, 1.4.3 and 1.4.11).
 */
const STYLE = `
body {
  --bar-height: 52px; --scalar-custom-header-height: var(--bar-height);
  --text: #1b2230; --muted: #5b6475; --bar: #fff; --field: #fff; --line: #dfe3ea; --edge: #848d9c; --accent: #1d4ed8;
  --on-accent: #fff; --failure: #b42318;
  color-scheme: light; margin: 0; background: var(--bar);
}
body.dark-mode {
  --text: #e6e9ef; --muted: #9aa4b5; --bar: #0f0f0f; --field: #1a1a1a; --line: #2d2d2d; --edge: #757d8b; --accent: #8ab0ff;
  --on-accent: #10141b; --failure: #ff9c92;
  color-scheme: dark;
}
/* Colors of Scalar with the contrast of WCAG AA, 4.5, on all of its backgrounds. */
body.light-mode {
  --scalar-color-2: #5f5f5f; --scalar-color-3: #666; --scalar-sidebar-color-2: #5f5f5f; --scalar-sidebar-search-color: #666;
  --scalar-color-blue: #0061a8; --scalar-color-green: #006b45; --scalar-color-orange: #a83a00; --scalar-color-red: #c00;
  --scalar-color-yellow: #7a5b00;
}
body.dark-mode, .scalar-app .dark-mode {
  --scalar-color-3: #9a9a9a; --scalar-sidebar-search-color: #9a9a9a; --scalar-color-red: #ff7a70;
}
[hidden] { display: none !important; }
.bar, .sign-in { color: var(--text); font: 15px/1.4 -apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; }
.bar {
  position: sticky; top: 0; z-index: 20; box-sizing: border-box; height: var(--bar-height); padding: 0 14px; display: flex;
  align-items: center; gap: 10px; background: var(--bar); border-bottom: 1px solid var(--line);
}
.brand { display: flex; align-items: center; gap: 10px; color: inherit; font-weight: 600; text-decoration: none; }
.brand img { width: 26px; height: 26px; flex: none; }
.account {
  flex: 1 1 0; min-width: 0; margin: 0; overflow: hidden; color: var(--muted); text-align: right; text-overflow: ellipsis;
  white-space: nowrap;
}
.bar button, .sign-in button {
  flex: none; min-height: 34px; padding: 0 14px; border: 1px solid var(--edge); border-radius: 6px; background: none;
  color: inherit; font: inherit; cursor: pointer;
}
.bar .primary, .sign-in .primary {
  border-color: var(--accent); background: var(--accent); color: var(--on-accent); font-weight: 600;
}
.sign-in button:disabled { opacity: 0.6; cursor: progress; }
.bar .icon { width: 36px; padding: 0; display: grid; place-items: center; border-color: transparent; }
.icon svg { width: 18px; height: 18px; }
body.dark-mode .moon, body:not(.dark-mode) .sun { display: none; }
.bar :focus-visible, .sign-in :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.sign-in {
  box-sizing: border-box; width: min(400px, calc(100vw - 32px)); padding: 24px; border: 1px solid var(--line);
  border-radius: 10px; background: var(--bar);
}
.sign-in::backdrop { background: rgb(0 0 0 / 0.45); }
.sign-in h2 { margin: 0 0 14px; font-size: 20px; }
.sign-in fieldset { margin: 0 0 6px; padding: 0; border: 0; min-width: 0; }
.sign-in legend { padding: 0; font-weight: 600; }
.sign-in .method { display: flex; align-items: center; gap: 8px; padding: 4px 0; }
.sign-in .method input { accent-color: var(--accent); margin: 0; }
.sign-in .field { display: block; margin-top: 12px; font-weight: 600; }
.sign-in .field input {
  display: block; box-sizing: border-box; width: 100%; margin-top: 4px; padding: 8px 10px; border: 1px solid var(--edge);
  border-radius: 6px; background: var(--field); color: inherit; font: inherit; font-weight: 400;
}
.sign-in .reset { margin: 8px 0 0; }
.sign-in a { color: var(--accent); }
.sign-in .failure { min-height: 21px; margin: 12px 0; color: var(--failure); overflow-wrap: anywhere; }
.sign-in .actions { display: flex; justify-content: flex-end; gap: 10px; }
@media (max-width: 480px) {
  .bar button { padding: 0 10px; }
  .bar .icon { padding: 0; }
  .bar:has(#sign-out:not([hidden])) .brand span { display: none; }
}
.scalar-app { --scalar-radius: 4px; }
/* Links to the makers of Scalar, and its switch of the theme, which the header replaces. */
a[href*="scalar.com"], .darklight-reference { display: none !important; }
/* The button that closes the request client would lie on the header. */
.scalar-app button.app-exit-button { position: absolute; z-index: 2; color: inherit; background: none; }
/* A button within the button that opens a model. The address bar has the link. */
.scalar-app .collapsible-section-trigger button { display: none; }
/* The rows of its tables would scroll over their title. */
.scalar-app .request-response-header { z-index: 1; }
/* The columns of a table are as wide as their texts; where they are wider than the page, the table scrolls. */
.scalar-app .introduction-description .markdown table { display: block; overflow-x: auto; table-layout: auto; }
.scalar-app .introduction-description .markdown :is(td, th) { padding-inline: 8px; overflow-wrap: normal; word-break: normal; }
.scalar-app .introduction-description .markdown td:first-child { white-space: nowrap; }
@media (max-width: 1000px) {
  /* Below the header of the page is one of Scalar. */
  .scalar-app .introduction-description .introduction-description-heading { scroll-margin-top: 116px; }
}
@media (max-width: 600px) {
  /* The button that copies a link to a field is wider than the rest of its line. */
  .scalar-app { overflow-x: clip; }
  .scalar-app .introduction-description .markdown td:last-child { min-width: 220px; }
}
`

/**
 * @param configuration what the script of the page reads
 * @param resetUrl where a forgotten password is reset; undefined without mail
 */
export const renderPage = (configuration: unknown, resetUrl: string | undefined): string =>
  renderDocument({
    title: TITLE,
    head: [
      `<meta name="description" content="${escapeHtml(DESCRIPTION)}">`,
      '<meta property="og:type" content="website">',
      `<meta property="og:title" content="${escapeHtml(TITLE)}">`,
      `<meta property="og:description" content="${escapeHtml(DESCRIPTION)}">`,
      '<meta name="theme-color" content="#ffffff" media="(prefers-color-scheme: light)">',
      '<meta name="theme-color" content="#0f0f0f" media="(prefers-color-scheme: dark)">',
    ],
    style: STYLE,
    body: `<section class="bar" aria-label="Account and theme">
<a class="brand" href="../" aria-label="${escapeHtml(identity.title)}: start page"><img src="${ICON}" alt=""><span>${escapeHtml(identity.title)}</span></a>
<p id="account" class="account" role="status"></p>
<button id="sign-in-open" type="button" class="primary">Sign in</button>
<button id="sign-out" type="button" hidden>Sign out</button>
${themeButton}
</section>
<script src="js/theme.js"></script>
${renderSignInForm(resetUrl)}
<div id="app"></div>
<noscript><p>This page needs JavaScript. The same content is in the OpenAPI documents, which <a href="../">the start page</a> links.</p></noscript>
<script id="configuration" type="application/json">${toScriptJson(configuration)}</script>
<script src="js/scalar.js" defer></script>
<script src="js/page.js" type="module"></script>`,
  })
