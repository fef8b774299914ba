/** Texts that change only with a release, compressed once for each encoding. */
export {
  type Asset,
  type Compression,
  createAsset,
  createJsonAsset,
  MAX_NEGOTIATION_LENGTH,
  STATIC_CACHE,
  sendAsset,
  serveAsset,
} from './assets.ts'
