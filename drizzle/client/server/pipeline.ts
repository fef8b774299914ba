/** Sends several statements over one connection without waiting in between (pipelining), and collects the lost ones. */
import { isConnectionLoss } from '../errors.ts'
import type { Row } from '../types.ts'
import type { TextValues } from '../values.ts'

/** A statement with the callbacks of its caller. */
export interface PendingStatement {
  text: string
  values: TextValues
  resolve(rows: Row[]): void
  reject(error: unknown): void
}

interface PipelineResult {
  /** The statements without an answer, because the connection was lost. Their callbacks were not called. */
  lost: PendingStatement[]
  /** The error with which the connection was lost. */
  error?: unknown
}

/** Sends all statements by `send`, and resolves when each has an answer or is lost. */
export function runPipeline(
  statements: readonly PendingStatement[],
  send: (statement: PendingStatement) => unknown,
): Promise<PipelineResult> {
  return new Promise((done) => {
    const lost: PendingStatement[] = []
    let lossError: unknown
    let unanswered = statements.length
    const countAnswer = () => {
      unanswered -= 1
      if (unanswered === 0) done({ lost, error: lossError })
    }
    for (const statement of statements) {
      const resolve = (rows: Row[]) => {
        statement.resolve(rows)
        countAnswer()
      }
      const reject = (error: unknown) => {
        if (isConnectionLoss(error)) {
          lost.push(statement)
          lossError = error
        } else statement.reject(error)
        countAnswer()
      }
      send({ text: statement.text, values: statement.values, resolve, reject })
    }
  })
}
