/** The face of backups, which no server loads. */
export {
  ChecksumBuilder,
  type Checksums,
  countAllRows,
  findDifferences,
  readChecksums,
} from './checksums.ts'
export {
  type Contents,
  checkContents,
  countRows,
  describeReference,
  readContents,
  readOuterReferences,
} from './contents.ts'
export { checkMigrations, loadDatabase } from './load.ts'
export { type Batch, MAX_BATCH_BYTES, MAX_BATCH_ROWS, readRows } from './rows.ts'
