/** What the two pages share: the frame of their documents, the icon, and escaping. */

/** The icon of the service: browsers request `/favicon.ico` for responses that are not pages, such as JSON. */
export const ICON_SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#2563eb"/><path d="M5 4 3 8l2 4M11 4l2 4-2 4" fill="none" stroke="#fff" stroke-width="1.5"/></svg>'

/** Inline, so that the pages need no further request. */
export const ICON = `data:image/svg+xml,${encodeURIComponent(ICON_SVG)}`

/** Escapes text for HTML, also in double-quoted attributes. */
export const escapeHtml = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

interface HtmlDocument {
  title: string
  /** Further elements of the head. */
  head?: readonly string[]
  style: string
  body: string
}

export const renderDocument = ({ title, head = [], style, body }: HtmlDocument): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${[`<title>${escapeHtml(title)}</title>`, ...head].join('\n')}
<link rel="icon" href="${ICON}">
<style>${style}</style>
</head>
<body>
${body}
</body>
</html>
`
