/** `npm start`: builds the server if the sources have changed, and runs it in this process. */
import './build.js'

await import('../dist/src/server.js')
