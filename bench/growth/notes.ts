/** What the figures do not say by themselves. */
export const NOTES = ``
