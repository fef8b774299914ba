/** Folders that survive a crash, those of packages, and packages that may be missing. */
export { createFolder } from '../lib/create-folder.ts'
export { loadOptional } from '../lib/load-optional.ts'
export { findPackageFolder } from '../lib/package-folder.ts'
export { syncFolder } from '../lib/sync-folder.ts'
