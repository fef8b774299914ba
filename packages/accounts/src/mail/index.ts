/** Mails: rows, written in the transaction of their cause, and sent in the background. */
import { join } from 'node:path'
import { identity } from '@resource-api/database'
import { getServerUrl, type RunConfig } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { createEnqueue } from './enqueue.ts'
import { createMailBox, getDkim, getSender, isMailConfigured } from './mail-settings.ts'
import { type MailState, pruneMails } from './mail-store.ts'
import { addMailMetrics } from './metrics.ts'

export type MailConfig = Pick<RunConfig, 'APP_SECRET' | 'APP_SECRET_PREVIOUS' | 'APP_URL' | 'DATA_DIR'> &
  Pick<RunConfig, 'MAIL_DKIM_DOMAIN' | 'MAIL_DKIM_KEY' | 'MAIL_DKIM_SELECTOR' | 'MAIL_FROM' | 'MAIL_URL'> &
  Pick<RunConfig, 'NODE_ENV' | 'PUBLIC_URL'>

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the state of all mails as last read, at most a minute ago; undefined while the database does not answer. */
    getMailState(): MailState | undefined
  }
}

async function mail(app: FastifyInstance, config: MailConfig) {
  app.decorate('mail', undefined)
  if (!isMailConfigured(config)) return
  const { database, log, outbox } = app
  const { APP_URL: appUrl, MAIL_URL: url, PUBLIC_URL: publicUrl } = config
  const from = getSender(config)
  const secretBox = createMailBox(config)
  const [{ loadTemplates }, { createFileTransport, createSmtpTransport }, { createMailWorker }] =
    await Promise.all([import('./templates.ts'), import('./transport.ts'), import('./worker.ts')])
  const templates = loadTemplates()
  const enqueue = createEnqueue(templates, secretBox)
  const transport =
    url === undefined
      ? createFileTransport(join(config.DATA_DIR, 'mail'), from)
      : createSmtpTransport(url, from, getDkim(config))

  const worker = createMailWorker({
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
    async enqueue(connection, sent) {
      await enqueue(connection, sent)
      worker.expect()
    },
    isDelivered: url !== undefined,
  }
  app.decorate('getMailState', worker.getState)
  if (app.addMetric) addMailMetrics(app.addMetric, worker.getState)
  outbox.subscribe(worker.onCommit)

  app.repeat((isWanted) => pruneMails(database, isWanted), 'old mails could not be deleted')
  // Not before: links have the address.
  app.addHook('onListen', async () => {
    if (url !== undefined && appUrl === undefined && publicUrl === undefined) {
      const address = getServerUrl(app, publicUrl)
      log.warn(
        { address },
        'links in mails lead to this address: set PUBLIC_URL if receivers cannot reach it',
      )
    }
    worker.start()
  })
  app.addHook('preClose', worker.pause)
  app.addHook('onClose', worker.stop)
}

export default fp(mail, { name: 'mail', dependencies: ['background', 'database', 'outbox'] })
