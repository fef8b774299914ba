/** A second version of the library: two fields of books are one, the status of a loan is a state, and shelves lack their name. */
import { type Version, v1 } from '@resource-api/api/versions'
import { mapResources, type ResourceMapping } from '@resource-api/resources/versions'
import { Type } from '@sinclair/typebox'
import { Book, BookCreate, Loan, LoanChange, LoanCreate, Shelf, ShelfCreate } from './schemas.ts'

const { title, pages } = BookCreate.properties
const volume = Type.Object({ title, pages }, { title: 'Volume', description: 'The title and the pages' })
const { title: _, pages: __, ...bookMembers } = Book.properties

const books: ResourceMapping = {
  schemas: {
    read: Type.Object({ ...bookMembers, volume }, { title: 'Book', description: 'A book of a shelf' }),
    create: Type.Object({ volume }),
    change: Type.Object({ volume }),
  },
  sources: { volume: ['title', 'pages'] },
  toVersion: ({ title, pages, ...rest }) => ({
    ...rest,
    volume: title === undefined && pages === undefined ? undefined : { title, pages },
  }),
  toCollection: ({ volume, ...rest }) => ({ ...rest, ...Object(volume) }),
}

const { status, ...loanMembers } = Loan.properties

const loans: ResourceMapping = {
  schemas: {
    read: Type.Object({ ...loanMembers, state: status }, { title: 'Loan', description: 'A loan' }),
    create: LoanCreate,
    change: Type.Object({ state: LoanChange.properties.status }),
  },
  sources: { state: ['status'] },
  toVersion: ({ status, ...rest }) => ({ ...rest, state: status }),
  toCollection: ({ state, ...rest }) => ({ ...rest, status: state }),
}

const { name: ___, ...shelfMembers } = Shelf.properties
const { is_public } = ShelfCreate.properties

const shelves: ResourceMapping = {
  schemas: {
    read: Type.Object(shelfMembers, { title: 'Shelf', description: 'A shelf of books' }),
    create: Type.Object({ is_public }),
    change: Type.Object({ is_public }),
  },
  lacking: ['name'],
  toVersion: ({ name: _, ...rest }) => rest,
  toCollection: (fields) => ({ ...fields, name: 'A shelf' }),
}

export const libraryVersions: readonly Version[] = [
  { representation: v1 },
  { representation: mapResources({ ...v1, version: 2 }, { books, loans, shelves }) },
]
