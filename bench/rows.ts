/** The rows that the workloads ask for. */

export interface ProductRow {
  id: string
  sku: string
  name: string
  description: string | null
  price_amount: number
  currency: string
  stock: number
  status: string
  created_at: string
  updated_at: string
  revision: number
}

/** Where a page of active users ended; `created_at` is PostgreSQL's own text, to the microsecond. */
export interface Position {
  id: string
  created_at: string
}
