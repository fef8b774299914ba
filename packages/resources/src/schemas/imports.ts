/** The schema of the result of an import. */
import { DryRun } from '@resource-api/api/results'
import { Integer, MAX_INTEGER, Timestamp } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

const Count = (description: string, example: number) =>
  Integer(0, MAX_INTEGER, { description, examples: [example] })

export const ImportResult = Type.Object(
  {
    data: Type.Object(
      {
        created: Count('Rows whose resources were created', 2),
        updated: Count('Rows whose resources were changed', 1),
        unchanged: Count('Rows whose resources had these values', 0),
      },
      { title: 'ImportCounts', description: 'The numbers of rows' },
    ),
    meta: Type.Object(
      { timestamp: Timestamp('The time of the response'), dry_run: DryRun },
      { title: 'ImportMeta', description: 'Facts about the response' },
    ),
  },
  { title: 'ImportReply', description: 'The result of an import' },
)
