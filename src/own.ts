/** What this project adds to the product. Nothing else lists it, and an upgrade of the product does not change this file. */
import { ordersResource } from '../plugins/resources/orders.ts'
import { postsResource } from '../plugins/resources/posts.ts'
import { productsResource } from '../plugins/resources/products.ts'
import { defineOwn } from './define-own.ts'

export const own = defineOwn({
  resources: [postsResource, productsResource, ordersResource],
})
