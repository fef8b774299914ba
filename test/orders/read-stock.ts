/** Reads the stock of a product. */
import type { VersionedClient } from '../../packages/testing/helpers/versioned-client.ts'

export const readStock = async (by: VersionedClient, id: string): Promise<number> =>
  (await by.get(`/products/${id}`)).data.stock
