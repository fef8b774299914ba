/** Renders the HTML of the documentation page, in which its scripts start Scalar. */
import { identity } from '@resource-api/database'
import { escapeHtml, renderDocument } from './html.ts'

const TITLE = `${identity.title}: API reference`
const DESCRIPTION =
  'The reference of the API: authentication, pagination, filtering, idempotency, errors, versions, limits, and every operation with examples.'

/** JSON that can stand in a script element, which ends at `</script`. */
const toScriptJson = (value: unknown) => JSON.stringify(value).replaceAll('<', '\\u003c')

/** @param configuration what the script of the page reads */
export const renderPage = (configuration: unknown, style: string): string =>
  renderDocument({
    title: TITLE,
    head: [`<meta name="description" content="${escapeHtml(DESCRIPTION)}">`],
    style,
    body: `<div id="app"></div>
<noscript><p>This page needs JavaScript. The same content is in the OpenAPI documents, which <a href="../">the start page</a> links.</p></noscript>
<script id="configuration" type="application/json">${toScriptJson(configuration)}</script>
<script src="js/scalar.js" defer></script>
<script src="js/page.js" type="module"></script>`,
  })
