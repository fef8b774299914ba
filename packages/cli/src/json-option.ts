/** The option of all commands that print a result. */
import { Option } from '@commander-js/extra-typings'

export const jsonOption = new Option('--json', 'Print JSON')
