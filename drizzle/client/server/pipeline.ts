/** Statements that are sent at once: each is told what came of it, but for those that their connection was lost for. */
import { DatabaseUnavailable } from '../errors.ts'
import type { Row } from '../types.ts'
import type { Values } from '../values.ts'

/** A statement among others, and who waits for what comes of it. */
export interface Asked {
  text: string
  values: Values
  resolve(rows: Row[]): void
  reject(error: unknown): void
}

/** Whether the connection is gone; a statement that was refused leaves it whole. */
export const isLoss = (error: unknown) => error instanceof DatabaseUnavailable && error.code === undefined

export interface Sent {
  /** Those that the connection was lost for, and how. */
  lost: Asked[]
  why?: unknown
  /** Milliseconds from the first answer to the last. */
  took: number
}

/** Sends them all, and waits until something has come of each. */
export function together(asked: readonly Asked[], send: (each: Asked) => unknown): Promise<Sent> {
  return new Promise((done) => {
    const lost: Asked[] = []
    let why: unknown
    let left = asked.length
    let began = 0
    const over = () => {
      if (left === asked.length) began = performance.now()
      left -= 1
      if (left === 0) done({ lost, why, took: performance.now() - began })
    }
    for (const each of asked) {
      const resolve = (rows: Row[]) => {
        each.resolve(rows)
        over()
      }
      const reject = (error: unknown) => {
        if (isLoss(error)) {
          lost.push(each)
          why = error
        } else each.reject(error)
        over()
      }
      send({ text: each.text, values: each.values, resolve, reject })
    }
  })
}
