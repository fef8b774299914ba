/** The sections of the guide on who uses the API: accounts, what each role may do, and agents. */
import { identity } from '@resource-api/database'
import { writeCurl } from './code-samples.ts'
import { type GuideOptions, writeBlock } from './guide-examples.ts'

/** Returns the section on mails with links; empty if the service sends none. */
export function getAccountsSection({ operations, server }: GuideOptions): string {
  const ids = ['createPasswordReset', 'completePasswordReset']
  const resets = operations.filter(({ operationId }) => ids.includes(operationId))
  if (resets.length === 0) return ''
  return `## Accounts and mail

\`POST /password-resets\` sends a mail with a link, and answers alike for every address. An admin who creates
a user without a password invites them: the link in that mail sets the first password. \`POST /email-verifications\` sends
the link that verifies an address, or that makes a new address the user's. Each link can be used once.

%%
A link has an \`id\` and a \`token\`. Pages of your own send them back:

${resets.map((operation) => writeBlock('sh', writeCurl(operation, server))).join('\n\n')}

\`\`\`ts
await client.passwordResets.create({ email })
await client.passwordResets.complete(id, { token, password })
await client.emailVerifications.complete(id, { token })
\`\`\`

`
}

/**
 * Returns the section on roles and rows.
 * @param tables the tables of all resources, which only the page has
 */
export const getPermissionsSection = ({ accessTables = '' }: GuideOptions): string => `## Permissions

Everything that no rule permits is forbidden (403). Rows that the caller may not read are also absent from lists, includes,
exports and events. The description of each operation says what it permits to each role. A resource can also permit rows by
the caller's membership in another one, and hide a field from a role or protect it: a field that a role may not read does not
exist for it.

%%
A cell says which rows a role may access: **all**, **none**, its **own** (the user, and rows with their id in \`user_id\`), or
those with a status, such as **published**. For \`create\` it is about the new row. A column **anonymous** is about requests
without credentials, which create only where sign-up is allowed.

${accessTables}

`

/**
 * Returns the section on tools; empty if the service has none.
 * @param name the collection of the examples
 */
export const getAgentsSection = ({ hasAgents, server }: GuideOptions, name: string): string =>
  hasAgents
    ? `## Agents

\`POST /mcp\` is a server of the Model Context Protocol: agents use the operations as tools, with the rules and limits of their
credential. An agent sees the tools that its credential can use. A key of its own with the scope \`${name}:read\` is a safe start.

%%
For example Claude Code; other clients need the same address and header:

${writeBlock('sh', `claude mcp add --transport http ${identity.name} "${server}/mcp" \\\n  --header "X-API-Key: YOUR_API_KEY"`)}

`
    : ''
