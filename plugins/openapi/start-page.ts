/** Renders the start page: the name and version of the service, and links to what it offers. */
import { identity } from '../../lib/identity.ts'
import { escapeHtml, ICON, renderDocument } from './html.ts'
import type { ServiceLinks } from './service-links.ts'

/** The content of the style element, whose hash the content security policy names. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --text: #1b2230; --muted: #5b6475; --page: #f6f7f9; --panel: #fff; --line: #dfe3ea; --accent: #1d4ed8;
}
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e9ef; --muted: #9aa4b5; --page: #12151b; --panel: #1a1f28; --line: #2c3441; --accent: #8ab0ff; }
}
* { box-sizing: border-box; }
body {
  margin: 0; min-height: 100vh; padding: 12vh 20px 40px; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif;
}
main { max-width: 44rem; margin: 0 auto; }
header { display: flex; align-items: center; gap: 14px; }
header img { width: 44px; height: 44px; }
h1 { margin: 0; font-size: 1.75rem; line-height: 1.2; }
header p { margin: 0; color: var(--muted); }
.docs {
  display: inline-block; margin: 28px 0; padding: 10px 18px; border-radius: 6px; background: var(--accent);
  color: var(--page); font-weight: 600; text-decoration: none;
}
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 16px; }
section { padding: 18px 20px; border: 1px solid var(--line); border-radius: 8px; background: var(--panel); }
h2 { margin: 0 0 8px; font-size: 1rem; }
ul { margin: 0; padding: 0; list-style: none; }
li { padding: 3px 0; }
a { color: var(--accent); }
a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
code { color: var(--muted); font: 0.875rem ui-monospace, monospace; }
`

const renderLink = (href: string, text: string) => `<a href="${escapeHtml(href)}">${escapeHtml(text)}</a>`

const renderPanel = (title: string, items: readonly string[]) =>
  `<section><h2>${title}</h2><ul>${items.map((item) => `<li>${item}</li>`).join('')}</ul></section>`

const renderVersion = ({ version, api, openapi, postman, bruno }: ServiceLinks['versions'][number]) =>
  renderPanel(`Version ${version}`, [
    `<code>${escapeHtml(api)}</code>`,
    renderLink(openapi, 'OpenAPI document'),
    renderLink(postman, 'Postman collection'),
    renderLink(bruno, 'Bruno collection'),
  ])

export const renderStartPage = (
  release: string,
  { docs, liveness, readiness, api_catalog, versions }: ServiceLinks,
): string =>
  renderDocument({
    title: identity.title,
    style: STYLE,
    body: `<main>
<header>
<img src="${ICON}" alt="">
<div><h1>${escapeHtml(identity.title)}</h1><p>Release ${escapeHtml(release)}</p></div>
</header>
<a class="docs" href="${escapeHtml(docs)}">Documentation</a>
<div class="panels">
${versions.map(renderVersion).join('\n')}
${renderPanel('Service', [
  renderLink(liveness, 'Liveness'),
  renderLink(readiness, 'Readiness'),
  renderLink(api_catalog, 'API catalog'),
])}
</div>
</main>`,
  })
