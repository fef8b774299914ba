/** The versions of the API. */
import { type Version, v1, v2 } from '@resource-api/api/versions'

export const versions: readonly Version[] = [{ representation: v1 }, { representation: v2 }]
