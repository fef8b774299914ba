/** Comments on the results of `npm run bench:growth`. Check them whenever the results change. */
export const NOTES = `The increases beyond that have three reasons:

- **The index has one more level.** By these figures, a B-tree of ids has two levels up to about 70,000 rows and three up to about 20 million: a read by id touches 3 pages and then 4, including the page of the row. From 100,000 to 1,000,000 users only the profiles cross such a limit. This is the minimum: a hash index in addition to the primary key would save one page of each read, and cost another index in each write.
- **Rows that are adjacent in the order are on different pages of the table.** A page reads 21 rows. They are on one page of the table if they were inserted together, and on 21 pages otherwise, as with any sort by name. That is the maximum, 24 or 25 pages with the three levels of the index, at any size. In the demo data, profiles are created up to a day after their users; that is one page of the table with 10,000 users and thirty with 1,000,000. The same applies to \`updated_at\`. In a database that grew row by row, the newest rows are together.
- **A member skips rows that they may not read.** The index of the posts of another user contains all posts of that author; a quarter of them is not published.

These costs grow:

- **A total** (\`page=\`) counts all matching rows: linear. Without \`page\` nothing is counted.
- **A search** for a rare word of three characters or more uses the trigram index, and does not grow. A common word is found in list order within a few rows. Two characters have no trigram: if many rows contain them, they are found soon; if none does, all rows are read, for up to 5 s (then 503). Search statements are planned for each execution. With a generic plan, PostgreSQL would assume that one in two hundred rows matches, and would scan in list order from the sixth search on: with 1,000,000 users, 1.1 s for a rare word in the products instead of 0.3 ms, and 4.8 s in the orders.
- **A sort by several fields** reads all rows with equal values in the first one: the demo data has only about a hundred display names, and \`display_name,created_at\` reads all rows of one name.

This cost does not grow, although it might:

- **A filter with one value** uses the index that has the filter before the order, and costs the same whether few rows or most have the value. On its own, PostgreSQL scans the index of the order for common values, and does not know that the newest rows do not have them: the newest orders are never completed. So if there is such an index and no other condition, a list uses \`status = any(array[$1])\` and sorts by \`status\` first; with a plain \`=\`, PostgreSQL would remove \`status\` from the order.`
