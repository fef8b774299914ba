/** The discussion of the figures in GROWTH.md; revise it whenever the figures change. */
export const NOTES = `Requests exceed the limit for three reasons:

- **The index has one more level.** A B-tree of ids has two levels up to about 70,000 rows and, by calculation, three up to about 20 million. A read by id touches 3 pages, then 4, including the page of the row. From 100,000 to 1,000,000 users the number of levels changes only for the profiles, which pass 70,000 rows in that range. A hash index in addition to the primary key would save one page per read and cost another index update per write.
- **Consecutive rows are further apart in the table.** A page reads 21 rows. They touch one page of the table if they are stored together, and 21 if each is stored elsewhere, as in any sort by name. That is the maximum at any size: 24 or 25 pages with the three levels of the index. The demo data creates profiles up to a day after their users, which is one page of the table at 10,000 users and thirty at 1,000,000; the same holds for \`updated_at\`. In a database that grows row by row, the newest rows are stored together.
- **A member's list skips rows that the member may not see.** The posts of another author are read in the order of all posts of that author; a quarter of them is not published.

Costs that grow with the data:

- **A total** (\`page=\`) counts all matching rows: linear. Without \`page\`, nothing is counted.
- **A search** for a word of three or more characters that occurs in few rows uses the trigram index, and does not grow. For a word that occurs in many rows, the scan in sort order finds matches within a few rows. Two characters have no trigram: if many rows contain them, the scan finds them soon; if no row does, all rows are read, for up to 5 s (then 503). Searches are planned for their values each time: with a generic plan, PostgreSQL would estimate that any word occurs in one of two hundred rows, and would scan in sort order from the sixth search on. At 1,000,000 users that takes 1.1 s instead of 0.3 ms for a rare word in the products, and 4.8 s in the orders.
- **A sort by several fields** reads all rows with an equal first field: the demo data has a few hundred display names, and \`display_name,created_at\` reads all rows of one name.

Costs that do not grow:

- **One value of a filter** is read by the index that has the filter column in front of the sort columns, and costs the same for frequent and for rare values. By default PostgreSQL scans the index of the sort for a frequent value, although the newest rows may not have it: the newest orders are never completed. So if there is such an index and no other condition, a list uses \`status = any(array[$1])\` and sorts by \`status\` first; after a plain \`=\`, PostgreSQL would remove \`status\` from the sort.`
