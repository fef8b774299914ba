/** The versions after v3 was added and v1 was deprecated. */
import { type Version, v1, v2 } from '@resource-api/api/versions'
import { v3 } from './v3.ts'

const v1Deprecation = {
  since: new Date('2027-01-01T00:00:00Z'),
  sunset: new Date('2028-01-01T00:00:00Z'),
  successor: 3,
}

export const versions: readonly Version[] = [
  { representation: v1, deprecated: v1Deprecation },
  { representation: v2 },
  { representation: v3 },
]
