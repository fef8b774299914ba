/** `MAIL_FROM` is a mailbox of RFC 5322, and mails have it as their sender, whole. */
import { simpleParser } from 'mailparser'
import t from 'tap'
import { readConfig } from '../../../http/src/config/read-config.ts'
import { getSender } from '../../src/mail/mail-settings.ts'
import { buildMessage } from '../../src/mail/transport.ts'

const mail = {
  ...{ id: 'x', template: 'notice', to: 'ada@example.com' },
  ...{ subject: 'Hello', text: 'Hello', html: '<p>Hello</p>' },
}

t.test('the name and the address of the sender are those of MAIL_FROM', async (t) => {
  const senders: [from: string, name: string][] = [
    ['a@b.co', ''],
    ['<a@b.co>', ''],
    ['Acme <a@b.co>', 'Acme'],
    ['"Acme, Inc." <a@b.co>', 'Acme, Inc.'],
    ['Acme, Inc. <a@b.co>', 'Acme, Inc.'],
    ['Acme (EU) <a@b.co>', 'Acme (EU)'],
    ['"Acme, Inc." (EU) <a@b.co>', 'Acme, Inc. (EU)'],
    ['Acme <a@b.co> (EU)', 'Acme (EU)'],
    ['"Acme (EU)" <a@b.co>', 'Acme (EU)'],
    ['a@b.co (Acme)', 'Acme'],
    ['"Say \\"hi\\": a@b.co; <x>" <a@b.co>', 'Say "hi": a@b.co; <x>'],
    ['Söhne & Co <a@b.co>', 'Söhne & Co'],
  ]
  for (const [MAIL_FROM, name] of senders) {
    const parsed = await simpleParser(await buildMessage(getSender(readConfig({ MAIL_FROM })), mail))
    t.strictSame(parsed.from?.value, [{ address: 'a@b.co', name }], MAIL_FROM)
    t.equal(parsed.messageId, '<x@b.co>')
  }
})
