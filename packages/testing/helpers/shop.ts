/** The application of this repository, as tests of the packages use it: its resources, tables and schemas. */
export { orderProducts, orders } from '../../../drizzle/tables/orders.ts'
export { products } from '../../../drizzle/tables/products.ts'
export { orders as ordersResource } from '../../../plugins/orders.ts'
export { posts as postsResource } from '../../../plugins/posts.ts'
export { products as productsResource } from '../../../plugins/products.ts'
export { Order, OrderChange, OrderCreate } from '../../../schemas/orders.ts'
export { Post, PostCreate } from '../../../schemas/posts.ts'
export { Product, ProductCreate } from '../../../schemas/products.ts'
