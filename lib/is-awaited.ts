/** Checks whether a client still waits for a reply. */

interface Reply {
  sent: boolean
  raw: { destroyed: boolean }
}

/** Returns whether the reply is not sent yet and the client is still connected. */
export const isAwaited = (reply: Reply): boolean => !reply.sent && !reply.raw.destroyed
