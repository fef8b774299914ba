/** The commands of the package, and what `doctor` and `restore` of others add to them. */
export { type BackupFile, type Header, readBackup } from './backup/backup-file.ts'
export { describeLoad, formatRows, loadRows } from './backup/transfer.ts'
export { backup } from './backup.ts'
export { copy } from './copy.ts'
export { attempt, ok, warn } from './doctor/finding.ts'
export { createDoctor } from './doctor.ts'
export { migrate } from './migrate.ts'
