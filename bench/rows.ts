/** The rows that the workloads request. */
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

/** The last user of a page of active users; `created_at` is PostgreSQL's text, with microseconds. */
export interface Position {
  id: string
  created_at: string
}
