/** Times in mails. Apart from the worker, so that servers without mail do not load it. */

/** The length of a time without its seconds. */
const TO_MINUTES = 16

/** Returns a time as mails show it: `2026-11-24 09:30 UTC`. */
export const formatMailTime = (time: string | number | Date): string =>
  `${new Date(time).toISOString().slice(0, TO_MINUTES).replace('T', ' ')} UTC`
