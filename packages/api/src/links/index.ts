/** The links of a response (RFC 8288). */
export { addLinks } from './links.ts'
