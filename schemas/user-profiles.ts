/** The schemas of user profiles, the public information of a user. Each user has at most one. */
import { common, HttpsUri, Id, Line, Lines, Nullable, Text } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

const owner = Id('The user; cannot be changed')

const fields = {
  display_name: Nullable(Line(100, 'The name that others see', 'Ada')),
  bio: Nullable(Lines(1000, 'A text of one or more lines about the user', 'Notes on the engine.')),
  avatar_url: Nullable(HttpsUri('The URL of a picture')),
  website_url: Nullable(HttpsUri('The URL of a website')),
  location: Nullable(Text({ maxLength: 100, description: 'A place, free text', examples: ['London'] })),
  time_zone: Nullable(
    Text({ format: 'time-zone', description: 'An IANA time zone name', examples: ['Europe/London'] }),
  ),
  locale: Nullable(
    Text({
      format: 'bcp-47',
      maxLength: 255,
      description: 'A BCP 47 tag, stored in its canonical form',
      examples: ['en-GB'],
    }),
  ),
}

export const UserProfile = Type.Object(
  { id: Id(), user_id: owner, ...fields, ...common },
  { title: 'UserProfile', description: 'The public information of a user' },
)

export const UserProfileCreate = Type.Object(
  { user_id: Type.Optional({ ...owner, description: 'The user; by default the caller' }), ...fields },
  {
    title: 'UserProfileCreate',
    examples: [
      { display_name: 'Ada', bio: 'Notes on the engine.', time_zone: 'Europe/London', locale: 'en-GB' },
    ],
  },
)

export const UserProfileChange = Type.Object(fields, {
  title: 'UserProfileChange',
  examples: [{ bio: 'Notes on two engines.', location: null }],
})
