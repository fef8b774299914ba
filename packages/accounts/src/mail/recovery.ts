/** Notices that the mail server takes mails again: those that wait for it do not wait for the time of their own next attempt. */
import { isAboutMail } from './transport.ts'

/** Lets mails that wait be attempted soon. @returns the seconds until all of them are due, and whether others wait */
type Advance = () => Promise<{ spread: number; hasMore: boolean }>

/** @param now returns milliseconds */
export function createRecovery(advance: Advance, now: () => number = () => performance.now()) {
  /** Whether an attempt failed because of the server. At the start this is unknown: the process before may have seen it. */
  let wasDown = true
  let lastSuccess = Number.NEGATIVE_INFINITY
  /** When mails may be advanced again: not before those that were advanced are due. */
  let nextAdvance = Number.NEGATIVE_INFINITY

  return {
    /** Sends a mail. @throws the error of `send` */
    async observe(send: () => Promise<void>): Promise<void> {
      const startedAt = now()
      try {
        await send()
      } catch (error) {
        // If the server took another mail since, the failure concerns this one.
        if (!isAboutMail(error) && lastSuccess < startedAt) wasDown = true
        throw error
      }
      lastSuccess = now()
    },

    /** Advances the mails that wait, once a mail was sent after a failure of the server. */
    async settle(): Promise<void> {
      if (!wasDown || lastSuccess === Number.NEGATIVE_INFINITY || now() < nextAdvance) return
      wasDown = false
      // No other call does it at the same time.
      nextAdvance = Number.POSITIVE_INFINITY
      let result = { spread: 0, hasMore: true }
      try {
        result = await advance()
      } finally {
        nextAdvance = now() + result.spread * 1_000
        wasDown ||= result.hasMore
      }
    },
  }
}
