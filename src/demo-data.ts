/**
 * The demo data: ten of each resource. The command `seed` sends it to a server, as one batch. `$0` in a path or a body
 * stands for the id that the first operation of the batch creates.
 */

const create = (path: string, body: object) => ({ method: 'POST', path, body }) as const
const update = (path: string, body: object) => ({ method: 'PATCH', path, body }) as const

const users = [
  { name: 'Grace Hopper', email: 'grace@example.com', role: 'manager' },
  { name: 'Alan Turing', email: 'alan@example.com' },
  { name: 'Mary Jackson', email: 'mary@example.com' },
  { name: 'Edsger Dijkstra', email: 'edsger@example.com' },
  { name: 'Barbara Liskov', email: 'barbara@example.com' },
  { name: 'Jürgen Moser', email: 'juergen@example.com' },
  { name: 'Sophie Germain', email: 'sophie@example.com' },
  { name: 'Niklaus Wirth', email: 'niklaus@example.com' },
  { name: 'Radia Perlman', email: 'radia@example.com', status: 'inactive' },
  { name: 'Donald Knuth', email: 'donald@example.com' },
]

const profiles = [
  {
    display_name: 'Grace',
    bio: 'Compilers, and short wires.',
    location: 'New York',
    time_zone: 'America/New_York',
  },
  { display_name: 'Alan', bio: 'Machines that can do anything.', location: 'Manchester', locale: 'en-GB' },
  { display_name: 'Mary', website_url: 'https://mary.example.com', locale: 'en-US' },
  { display_name: 'Edsger', bio: 'The shortest path to everything.', location: 'Nuenen', locale: 'nl-NL' },
  { display_name: 'Barbara', bio: 'Substitutable.', time_zone: 'America/New_York' },
  { display_name: 'Jürgen', location: 'Zürich', time_zone: 'Europe/Zurich', locale: 'de-CH' },
  { display_name: 'Sophie', location: 'Paris', time_zone: 'Europe/Paris', locale: 'fr-FR' },
  { display_name: 'Niklaus', bio: 'Small languages.\nSmaller systems.', location: 'Zürich' },
  { display_name: 'Radia', avatar_url: 'https://example.com/avatars/radia.png' },
  { display_name: null, bio: 'Counts from zero.' },
]

/** Amounts are in cents. */
const products = [
  { sku: 'TEA-GREEN', name: 'Green tea', price_amount: 1250, stock: 40, description: 'Loose leaf, 100 g' },
  { sku: 'TEA-BLACK', name: 'Black tea', price_amount: 990, stock: 60, description: 'Loose leaf, 100 g' },
  { sku: 'TEA-MINT', name: 'Mint tea', price_amount: 790, stock: 0, description: 'Sold out until summer' },
  { sku: 'POT-SMALL', name: 'Small teapot', price_amount: 3400, stock: 12 },
  { sku: 'POT-LARGE', name: 'Large teapot', price_amount: 4900, stock: 7 },
  { sku: 'CUP-GLASS', name: 'Glass cup', price_amount: 650, stock: 200 },
  { sku: 'CUP-STONE', name: 'Stoneware cup', price_amount: 1100, stock: 150 },
  { sku: 'SIEVE', name: 'Tea sieve', price_amount: 890, stock: 30 },
  { sku: 'KETTLE', name: 'Kettle', price_amount: 6900, stock: 5, status: 'draft' },
  { sku: 'TIN-OLD', name: 'Tea tin', price_amount: 1500, stock: 1, status: 'archived' },
]

/** By the number of their author. */
const posts = [
  [0, { title: 'The first bug', body: 'It was a moth.', status: 'published' }],
  [0, { title: 'A nanosecond of wire', body: 'It has 30 cm.\n\nBring some home.', status: 'published' }],
  [1, { title: 'Does it stop?', body: 'We cannot know in general.', status: 'published' }],
  [1, { title: 'A tape without an end', body: 'To be continued.' }],
  [3, { title: 'On jumps', body: 'Consider the reader of the program.', status: 'published' }],
  [4, { title: 'Types and their kinds', body: 'A square is no rectangle.', status: 'published' }],
  [6, { title: 'Plates that sing', body: 'Sand shows the tones.', status: 'archived' }],
  [7, { title: 'Software grows', body: 'Hardware does not keep up.', status: 'published' }],
  [8, { title: 'A tree of bridges', body: 'No loops.', status: 'published' }],
  [9, { title: 'Volume five', body: 'Later.' }],
] as const

/** The number of the customer, then those of the products with their quantities. An order takes their stock. */
const orders = [
  [1, { 0: 2 }, { note: 'Ring twice' }],
  [1, { 3: 1, 5: 4 }],
  [2, { 1: 1 }],
  [2, { 6: 6, 7: 1 }, { note: 'A gift: no invoice please' }],
  [3, { 4: 1 }],
  [4, { 0: 1, 1: 1 }],
  [5, { 5: 12 }],
  [6, { 7: 2 }],
  [7, { 3: 1, 6: 2 }],
  [9, { 0: 10 }, { note: 'For the whole department' }],
] as const

/** Numbers of orders, with the status that they get next. */
const changes = [
  [1, 'paid'],
  [2, 'paid'],
  [2, 'shipped'],
  [3, 'cancelled'],
  [4, 'paid'],
  [4, 'shipped'],
  [4, 'completed'],
] as const

const user = (number: number) => `$${number}`
const product = (number: number) => `$${users.length + number}`
const order = (number: number) => `$${users.length + products.length + number}`

export const demoData = [
  ...users.map((body) => create('/users', body)),
  ...products.map((body) => create('/products', { status: 'active', ...body })),
  ...orders.map(([customer, quantities, fields]) => {
    const items = Object.entries(quantities).map(([number, quantity]) => ({
      product_id: product(Number(number)),
      quantity,
    }))
    return create('/orders', { user_id: user(customer), items, ...fields })
  }),
  ...changes.map(([number, status]) => update(`/orders/${order(number)}`, { status })),
  ...profiles.map((body, number) => create('/user-profiles', { user_id: user(number), ...body })),
  ...posts.map(([author, body]) => create(`/users/${user(author)}/posts`, body)),
]
