/** What the figures of the bench do not say by themselves; to be read again whenever they change. */
export const NOTES = `## What is reached, and what is not

Ahead of every peer in each workload, and at or beyond the goal in 34 of 42 comparisons. Of 14 lines (seven workloads, key and token) nine reached it in all three runs.

- **W3 with a key** missed it in all three runs (0.76, 0.77, 0.79), and with a token, by the same code, did not (1.08, 1.02, 1.15). The target that is measured first walks the whole list for the others' cursors, 1,100 pages one by one. After that every page's rows outlived the collections of young garbage (2.7 MB a collection where 0.5 is usual, from \`--trace-gc\`): the driver's array for the rows had grown old and kept them. Since these runs the rows are taken out of it: with commit d2d07fd a fourth run of W3 and W6 alone (3 rounds of 3 s) gave 0.92 (0.85-0.97) and, with a token, 1.02 (0.81-1.11); W6 0.99 and 0.94. What is left of the difference between the two processes is not explained; their collections are alike now.
- **W5 and W6** are at their goal, some runs over and some under it: 0.85 to 0.98, and 0.88 to 1.07. A profile of W6 (\`--profile\`) divides 95 µs so: 20 for writing the answer to the socket and its headers (the reference: 17, with 4 headers where ours are 19), 14 for the head of the request and all hooks, of which the reference has 4, 12 for the garbage (8), 11 for PostgreSQL's answers (10), 11 for the statements and their packets (17), 8 for the body, its checks and the change itself (3), 5 for the reply's words and its tag (2), and 14 for the rest of Node.js and Fastify (14). Nothing of it stands out any more; what is asked of a write that the reference does not ask is about 20 µs.
- **W7 with a key** was 0.86 in one run, 1.04 and 1.15 in the others.

What was tried, and what came of it. These were measured one after the other as they were made, interleaved with the state before, mostly while the machine had other work; so they tell the size and not the digit.

| What | Came of it |
|---|---|
| Writes of one turn of the event loop share packets, eight at most | W5 and W6: a fifth of the server's part, a quarter of PostgreSQL's |
| No promise for what is known already (credentials, limits, a free turn); no copies of a new row on its way to the statement; plain ASCII is not normalized | W1 a tenth, W5 a quarter |
| Included resources put beside the members and not into a copy; a page's cursor remembered | W4 a quarter: V8 reads such a copy ten times as slowly |
| An await of the driver's promise and not callbacks on it | W2: promoted garbage 2.9 MB a collection, then 0.4; other threads' time halved |
| No Map or Set that thousands come into and go from each second: their old tables keep what they held | W6: promoted garbage 2.2 MB a collection, then 0.7; W5 and W6 up to 15 % |
| Node's own measure of the loop's delay in place of under-pressure, which asked for the memory ten times a second | 0.7 % of a profile |
| \`--single-threaded-gc\`, \`--no-allocation-site-pretenuring\` | nothing that stood out of the noise |
| \`--max-semi-space-size=16\` instead of 32 | 0 to 10 % dearer, some 30 MB less |
| \`--heap-growing-percent=50\`, which keeps the memory under 200 MB | 0 to 5 % dearer; all figures here are with it |

## As it goes on, and as it starts

\`npm run bench:steady\`, ten minutes of all workloads at once after a minute to warm up: 5,593 requests a second in the first minute, 5,327 in the last (-4.8 %; between them 5,305 to 6,127), the server's CPU for each 174.6 and 180.1 µs (+3.1 %), resident memory 190 MB and 191 MB, 193 MB at most.

\`npm run bench:start\`, ten starts each: ready after 891 ms (820-1,077) on a migrated PostgreSQL, then 121 MB resident; after 1,500 ms (1,287-1,814) on an existing embedded folder, then 353 MB.`
