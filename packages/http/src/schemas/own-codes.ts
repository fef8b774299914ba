/** The codes of invalid fields that the project adds to those of the product, each with its meaning for clients. */
export const ownFieldMeanings = {
  INSUFFICIENT_STOCK: 'The product has too little stock',
} as const
