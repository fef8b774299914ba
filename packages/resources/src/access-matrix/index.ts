/** The access matrix of an application: its file, and the comparison with what the definitions grant. */
export { type AccessMatrix, addCollections, buildAccessMatrix, getCollectionKey } from './build-matrix.ts'
export { compareMatrices, formatDifference, nameRule } from './compare-matrices.ts'
export { locateRule } from './locate-rule.ts'
export { formatMatrix, MATRIX_FILE, readMatrix, WRITE_COMMAND } from './matrix-file.ts'
