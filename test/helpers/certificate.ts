/** A self-signed certificate for servers of tests. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/** Makes a key and a certificate for `localhost` in a folder and returns their paths, as the settings name them. */
export function createCertificate(folder: string): { TLS_KEY: string; TLS_CERT: string } {
  const [TLS_KEY, TLS_CERT] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const request = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost'.split(' ')
  const subject = ['-addext', 'subjectAltName=DNS:localhost']
  execFileSync('openssl', ['req', ...request, ...subject, '-keyout', TLS_KEY, '-out', TLS_CERT], {
    stdio: 'ignore',
  })
  return { TLS_KEY, TLS_CERT }
}
