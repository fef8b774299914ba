import fs from 'node:fs'
import { join } from 'node:path'

/** Syncs a folder and everything in it to disk. */
export function syncTree(folder: string): void {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) syncTree(path)
    else syncPath(path, 'r+')
  }
  syncFolder(folder)
}

/** Syncs the entries of a folder to disk. Windows has no such call and needs none: NTFS journals its metadata. */
export function syncFolder(path: string): void {
  if (process.platform !== 'win32') syncPath(path, 'r')
}

function syncPath(path: string, flags: string): void {
  const fd = fs.openSync(path, flags)
  try {
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}
