/** The URL of an endpoint is checked when it is created. */
import t from 'tap'
import { createAddressPolicy } from '../../plugins/webhooks/delivery/addresses.ts'
import { findUrlMistake } from '../../plugins/webhooks/delivery/url.ts'

const production = {
  requiresHttps: true,
  policy: createAddressPolicy({ allowsPrivate: false, allowsLoopback: false }),
}
const development = {
  requiresHttps: false,
  policy: createAddressPolicy({ allowsPrivate: false, allowsLoopback: true }),
}
const longest = `https://example.com/${'x'.repeat(2_028)}`

t.test('public https URLs are accepted', async (t) => {
  const urls = [
    'https://example.com',
    'https://example.com:8443/hooks?tenant=1&key=a%20b',
    'https://hooks.example.com./a;b=c',
    'https://xn--bcher-kva.example/',
    'https://8.8.8.8/hook',
    'https://[2606:4700:4700::1111]:8443/',
    longest,
  ]
  for (const url of urls) {
    t.equal(findUrlMistake(url, production), undefined, url)
    t.equal(findUrlMistake(url, development), undefined, url)
  }
})

t.test('http is accepted only where https is not required', async (t) => {
  t.equal(findUrlMistake('http://example.com/', development), undefined)
  t.equal(findUrlMistake('http://example.com/', production), 'must be an https URL')
})

t.test('texts that are not http URLs are refused', async (t) => {
  const texts = [
    '',
    'example.com',
    '//example.com',
    'https://',
    'https:///path',
    'https:example.com',
    'https:\\\\example.com\\',
    'https://exam\tple.com/',
    ' https://example.com/',
    'https://example.com/ ',
    'https://example.com/\n',
    'https://example.com/%zz',
    'https://bücher.example/',
    'https://example.com:99999/',
    'https://256.1.1.1/',
    'https://1.2.3.4.5/',
    'https://[::1',
    'https://[fe80::1%25eth0]/',
    'HTTPS://example.com/',
    'ftp://example.com/',
    'file:///etc/passwd',
    'gopher://example.com/',
    'javascript:alert(1)',
  ]
  for (const text of texts) {
    t.equal(findUrlMistake(text, production), 'must be an https URL', text)
    t.equal(findUrlMistake(text, development), 'must be an https or http URL', text)
  }
})

t.test('a URL with credentials or a fragment is refused', async (t) => {
  for (const url of [
    'https://user@example.com/',
    'https://user:pass@example.com/',
    'https://:pass@example.com/',
    'https://@example.com/',
    'https://:@example.com',
  ])
    t.equal(findUrlMistake(url, production), 'must not contain credentials', url)
  for (const url of ['https://example.com/#a', 'https://example.com/#', 'https://example.com#x'])
    t.equal(findUrlMistake(url, production), 'must not contain a fragment', url)
})

t.test('a URL of more than 2048 characters is refused', async (t) => {
  t.equal(longest.length, 2_048)
  t.equal(findUrlMistake(`${longest}x`, production), 'must not have more than 2048 characters')
})

t.test('a host that is known to be private is refused', async (t) => {
  const refused = 'must not have a host that is not public'
  for (const host of ['10.0.0.1', '0x7f.1', '2130706433', '[::1]', 'localhost', 'a.localhost', 'LOCALHOST.'])
    t.equal(findUrlMistake(`https://${host}/`, production), refused, host)
  for (const host of ['127.0.0.1', '[::1]', 'localhost:3000'])
    t.equal(findUrlMistake(`http://${host}/`, development), undefined, host)
  t.equal(findUrlMistake('http://169.254.169.254/latest/meta-data', development), refused)
})
