/** Makes one attempt: decides whether the event may be sent, builds and signs the message, and sends it. */

import { getRetryDelayMs } from './delivery/retry-schedule.ts'
import type { SecretBox } from './delivery/secret-box.ts'
import type { SendResult, WebhookSender } from './delivery/sender.ts'
import { signWebhook } from './delivery/signature.ts'
import type { ClaimedDelivery, StoredResult } from './delivery-store.ts'
import type { MessageBuilder } from './message.ts'

/** The outcome of an attempt, and what follows for the endpoint. */
export interface Outcome {
  delivery: ClaimedDelivery
  result: StoredResult
  /** Whether a request was made, so that the attempt counts and says something about the endpoint. */
  isSent: boolean
  /** Whether the endpoint wants no more events (410). */
  isGone: boolean
}

const GONE = 410

const isSuccess = ({ error, responseStatus }: SendResult) =>
  error === null && responseStatus !== null && responseStatus >= 200 && responseStatus < 300

interface AttemptOptions {
  sender: WebhookSender
  secretBox: SecretBox
  /** The value of the header `user-agent`. */
  userAgent: string
  buildMessage: MessageBuilder
}

/** After which time a delivery is tried again that an operator's mistake keeps from being sent. */
const MISTAKE_DELAY_MS = 600_000

/** An attempt that ends without a request: the delivery ends too, or is tried again after a delay. */
const refuse = (delivery: ClaimedDelivery, error: string | null, delay?: number): Outcome => ({
  delivery,
  result: {
    id: delivery.id,
    attempts: delivery.attempts,
    is_sent: false,
    status: delay === undefined ? 'failed' : 'pending',
    delay_ms: delay ?? null,
    response_status: null,
    response_body: null,
    error,
    duration_ms: null,
  },
  isSent: false,
  isGone: false,
})

/** Ends a claim whose attempt is not made: the delivery stays due. */
export const giveBack = (delivery: ClaimedDelivery): Outcome => refuse(delivery, null, 0)

function toOutcome(delivery: ClaimedDelivery, sent: SendResult): Outcome {
  const isGone = sent.responseStatus === GONE
  const delay = isSuccess(sent) || isGone ? undefined : getRetryDelayMs(delivery.attempts, sent.retryAfterMs)
  return {
    delivery,
    result: {
      id: delivery.id,
      attempts: delivery.attempts,
      is_sent: true,
      status: isSuccess(sent) ? 'succeeded' : delay === undefined ? 'failed' : 'pending',
      delay_ms: delay ?? null,
      response_status: sent.responseStatus,
      response_body: sent.responseBody,
      error: sent.error,
      duration_ms: sent.durationMs,
    },
    isSent: true,
    isGone,
  }
}

/** Returns the function that makes the attempt of a claimed delivery. It does not throw. */
export function createAttempt({ sender, secretBox, userAgent, buildMessage }: AttemptOptions) {
  return async (delivery: ClaimedDelivery): Promise<Outcome> => {
    const { endpoint_id: endpointId, event_id: id, previous_secret_box: previous } = delivery
    const message = buildMessage(delivery)
    // It may be large, and the attempt long.
    delivery.event = null
    if ('refusal' in message) return refuse(delivery, message.refusal)
    const { body } = message
    const timestampSeconds = Math.floor(Date.now() / 1000)
    const boxes = previous === null ? [delivery.secret_box] : [delivery.secret_box, previous]
    let signature: string
    try {
      const secrets = boxes.map((box) => secretBox.decrypt(box, endpointId))
      signature = signWebhook({ id, timestampSeconds, body, secrets })
    } catch {
      return refuse(delivery, 'the secret of the endpoint cannot be decrypted', MISTAKE_DELAY_MS)
    }
    const sent = await sender.send({
      url: delivery.url,
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'user-agent': userAgent,
        'webhook-id': id,
        'webhook-timestamp': String(timestampSeconds),
        'webhook-signature': signature,
      },
      body,
    })
    return toOutcome(delivery, sent)
  }
}
