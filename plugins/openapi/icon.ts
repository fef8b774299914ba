/** The icon of the pages, inline: browsers would otherwise request /favicon.ico, which does not exist. */

export const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#2563eb"/><path d="M5 4 3 8l2 4M11 4l2 4-2 4" fill="none" stroke="#fff" stroke-width="1.5"/></svg>',
)}`
