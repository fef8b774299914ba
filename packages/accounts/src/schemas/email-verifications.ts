/** The schemas of email verifications: the request for a mail, its completion, and the verification in the response. */
import { Email, Id, OneOf, Secret, Timestamp } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'
import { exampleLinkToken } from './password-resets.ts'

export const EmailVerificationCreate = Type.Object(
  {
    email: Type.Optional(Email('The new address. Default: the present one')),
    current_password: Type.Optional(Secret(128, 'Required with a new address', 'eleven brass cogs, turning')),
  },
  { title: 'EmailVerificationCreate', description: 'Requests a mail with a link', examples: [{}] },
)

export const EmailVerificationComplete = Type.Object(
  { token: Secret(128, 'The token in the link of the mail', exampleLinkToken) },
  { title: 'EmailVerificationComplete', description: 'Verifies the address' },
)

export const EmailVerification = Type.Object(
  {
    id: Id(),
    email: Email('The address that is verified'),
    status: OneOf(['pending', 'completed'], {
      title: 'EmailVerificationStatus',
      description: 'Whether the address is verified',
    }),
    expires_at: Timestamp('When the link in the mail ends'),
  },
  {
    title: 'EmailVerification',
    description: 'A link with which a user proves to receive mail at an address',
  },
)
