/** What the figures do not say by themselves; to be read again whenever they change. */
export const NOTES = `What is beyond has three reasons:

- **The tree has a level more.** A B-tree of ids has two levels up to about 70,000 rows and, reckoned from the same figures, three up to some 20 million: a read by id is 3 pages and then 4, the row's own among them. From 100,000 to 1,000,000 users it is the same but for the profiles, which cross that line there. It cannot be had for less: a hash index beside the primary key would save the page at every read and cost another index at every write.
- **Rows that follow each other in the order lie further apart in the table.** A page reads 21 rows; they touch one page of the table where they lie together, and 21 where each lies elsewhere, as under any sort by name. That is the most it comes to, with the three levels of the index 24 or 25, at any size. The demo data makes profiles up to a day after their users, which is a page of the table at 10,000 users and thirty at 1,000,000; \`updated_at\` likewise. In a database that grew row by row the newest lie together.
- **A member passes over rows that they may not see.** The posts of somebody else are in the order of all of the author's; a quarter of them is not published.

What grows, and how:

- **A total** (\`page=\`) counts all that is found: linear. Without \`page\` nothing is counted.
- **A search** for a word of three characters or more that few rows have is looked up in the trigram index, and does not grow. One that many rows have is met along the order, within a few rows. Two characters have no trigram: where many rows have them, they are met soon; where none has, all rows are read, in up to 5 s (503 then). Words are planned for each time: prepared once, PostgreSQL would take any for one in two hundred and walk the order from the sixth search on, at 1,000,000 users 1.1 s for a rare word among the products in place of 0.3 ms, 4.8 s among the orders.
- **A sort of several** reads all rows that are alike in the first one: the demo data has but some hundred names to show, and \`display_name,created_at\` reads all of one name.

What does not, though it might:

- **One value of a filter** leads to its page by the index that has the filter before the order, and costs the same whether few rows have the value or most. PostgreSQL, left to choose, walks the order's own index for what most rows have, and does not know that the newest do not: the newest orders are never completed. So where there is such an index and no other condition, a list says \`status = any(array[$1])\` and orders by \`status\` first; after a plain \`=\` PostgreSQL would leave it out of the order.`
