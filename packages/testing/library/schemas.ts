/** The schemas of the library. */
import { common, Id, Integer, Line, OneOf } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

const shelf = {
  name: Line(100, 'The name', 'Poems'),
  is_public: Type.Boolean({ default: false, description: 'Whether all read its books', examples: [true] }),
}
export const Shelf = Type.Object(
  { id: Id(), user_id: Id('The owner'), ...shelf, ...common },
  { title: 'Shelf', description: 'A shelf of books' },
)
export const ShelfCreate = Type.Object(shelf, { title: 'ShelfCreate' })

const book = {
  title: Line(200, 'The title', 'Duino Elegies'),
  pages: Integer(1, 10_000, { description: 'The number of pages', examples: [80] }),
}
export const Book = Type.Object(
  { id: Id(), shelf_id: Id('The shelf'), ...book, ...common },
  { title: 'Book', description: 'A book of a shelf' },
)
export const BookCreate = Type.Object(book, { title: 'BookCreate' })

const LoanStatus = OneOf(['requested', 'lent', 'returned'], {
  title: 'LoanStatus',
  description: 'requested -> lent; lent -> returned',
  examples: ['requested'],
})
const book_id = Id('The book')
export const Loan = Type.Object(
  { id: Id(), user_id: Id('The reader'), book_id, status: LoanStatus, ...common },
  { title: 'Loan', description: 'A book that a reader has asked for' },
)
export const LoanCreate = Type.Object({ book_id }, { title: 'LoanCreate' })
/** An enum is all that changes. */
export const LoanChange = Type.Object({ status: LoanStatus }, { title: 'LoanChange' })

const rating = Integer(1, 5, { description: 'From 1 to 5', examples: [4] })
export const Review = Type.Object(
  { id: Id(), user_id: Id('The reader'), book_id, rating, ...common },
  { title: 'Review', description: 'What a reader thinks of a book' },
)
export const ReviewCreate = Type.Object({ book_id, rating }, { title: 'ReviewCreate' })
export const ReviewChange = Type.Object({ rating }, { title: 'ReviewChange' })

export const Reader = Type.Object(
  {
    id: Id('The id of the reader'),
    user_id: Id('The user'),
    loans: Integer(0, 1_000_000, { description: 'The number of loans', examples: [3] }),
    ...common,
  },
  { title: 'Reader', description: 'How much a user reads' },
)
