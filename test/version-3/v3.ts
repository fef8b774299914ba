/** v3: the envelope of v1; fields of products differ. */
import type { Representation } from '../../plugins/versioning/representation/types.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'

export const v3: Representation = {
  ...v1,
  version: 3,
  about: `${v1.about} Products have a \`title\`, a \`code\` and a \`label\`.`,
}
