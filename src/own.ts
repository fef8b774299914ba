/** What this project adds to the product. Nothing else lists it, and an upgrade of the product does not change this file. */

import './application.ts'
import { defineOwn } from '@resource-api/events'
import orders from '../plugins/orders.ts'
import posts from '../plugins/posts.ts'
import products from '../plugins/products.ts'

export const own = defineOwn({
  resources: [posts, products, orders],
})
