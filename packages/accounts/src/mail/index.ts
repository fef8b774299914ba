/** Mails: rows of work, written in the transaction of their cause, and sent in the background. */
import { join } from 'node:path'
import { identity } from '@resource-api/database'
import type { RunConfig } from '@resource-api/http/config'
import { getServerUrl } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { createMailEnqueue } from './enqueue.ts'
import { createMailBox, getDkim, getSender, isMailConfigured } from './mail-settings.ts'
import { addMailMetrics } from './metrics.ts'

export type MailConfig = Pick<RunConfig, 'APP_SECRET' | 'APP_SECRET_PREVIOUS' | 'APP_URL' | 'DATA_DIR'> &
  Pick<RunConfig, 'MAIL_DKIM_DOMAIN' | 'MAIL_DKIM_KEY' | 'MAIL_DKIM_SELECTOR' | 'MAIL_FROM' | 'MAIL_URL'> &
  Pick<RunConfig, 'NODE_ENV' | 'PUBLIC_URL'>

async function mail(app: FastifyInstance, config: MailConfig) {
  app.decorate('mail', undefined)
  if (!isMailConfigured(config)) return
  const { database, log, work } = app
  const { APP_URL: appUrl, MAIL_URL: url, PUBLIC_URL: publicUrl } = config
  const from = getSender(config)
  const secretBox = createMailBox(config)
  const [{ loadTemplates }, { createFileTransport, createSmtpTransport }, { createMailKind }] =
    await Promise.all([import('./templates.ts'), import('./transport.ts'), import('./kind.ts')])
  const templates = loadTemplates()
  const transport =
    url === undefined
      ? createFileTransport(join(config.DATA_DIR, 'mail'), from)
      : createSmtpTransport(url, from, getDkim(config))

  const kind = createMailKind({
    ...{ database, log, transport, secretBox, render: templates.render, product: identity.title },
    logsLinks: url === undefined,
    buildLink(purpose, link) {
      const address = new URL(appUrl ?? `${getServerUrl(app, publicUrl)}/account/${purpose}`)
      const query = { ...(appUrl !== undefined && { purpose }), ...link }
      for (const [name, value] of Object.entries(query)) address.searchParams.append(name, value)
      return address.href
    },
  })

  app.mail = {
    enqueue: createMailEnqueue(templates, secretBox, work.enqueue),
    isDelivered: url !== undefined,
  }
  if (app.addMetric) addMailMetrics(app.addMetric, work)

  // Not before: links have the address.
  app.addHook('onListen', async () => {
    if (url !== undefined && appUrl === undefined && publicUrl === undefined) {
      const address = getServerUrl(app, publicUrl)
      log.warn(
        { address },
        'links in mails lead to this address: set PUBLIC_URL if receivers cannot reach it',
      )
    }
    await work.add(kind)
  })
  app.addHook('onClose', async () => {
    await work.stop()
    transport.close()
  })
}

export default fp(mail, { name: 'mail', dependencies: ['database', 'outbox', 'work'] })
