/** What the figures of the bench do not say by themselves; to be read again whenever they change. */
export const NOTES = `## What is reached, and what is not

Ahead of every peer in each workload, and at or beyond the goal in 40 of 42 comparisons: of 14 lines (seven workloads, key and token) twelve reached it in all three runs, and all fourteen in the median of the three.

- **W3 with a token** was 0.96 in the first run (0.93-1.03), 1.13 and 1.10 in the others; the key, by the same code, 1.21, 1.10 and 1.13. In that run the same statement cost PostgreSQL 65 to 76 µs with the token and 45 to 50 with the key: fewer of its requests came in one turn of the event loop and shared a packet, and that costs both sides. It is a rhythm that 32 connections fall into, and keep.
- **W6 with a key** was 0.90 by two digits and less than that by three in the last run (0.64-1.04), 0.98 and 0.94 in the others. A profile of W6 (\`--profile\`) divides 95 µs so: 20 for writing the answer to the socket and its headers (the reference: 17, with 4 headers where ours are 19), 14 for the head of the request and all hooks, of which the reference has 4, 12 for the garbage (8), 11 for PostgreSQL's answers (10), 11 for the statements and their packets (17), 8 for the body, its checks and the change itself (3), 5 for the reply's words and its tag (2), and 14 for the rest of Node.js and Fastify (14). Nothing of it stands out any more; what is asked of a write that the reference does not ask is about 20 µs.
- **W3 with a key was 0.76 to 0.79** in three runs of the session before these, after which rows are taken out of the driver's array: it had grown old in the process that walked the whole list for the others' cursors, and kept every page beyond the collections of young garbage.

What was tried, and what came of it. These were measured one after the other as they were made, interleaved with the state before, mostly while the machine had other work; so they tell the size and not the digit.

| What | Came of it |
|---|---|
| Writes of one turn of the event loop share packets, eight at most | W5 and W6: a fifth of the server's part, a quarter of PostgreSQL's |
| No promise for what is known already (credentials, limits, a free turn); no copies of a new row on its way to the statement; plain ASCII is not normalized | W1 a tenth, W5 a quarter |
| Included resources put beside the members and not into a copy; a page's cursor remembered | W4 a quarter: V8 reads such a copy ten times as slowly |
| An await of the driver's promise and not callbacks on it | W2: promoted garbage 2.9 MB a collection, then 0.4; other threads' time halved |
| No Map or Set that thousands come into and go from each second: their old tables keep what they held | W6: promoted garbage 2.2 MB a collection, then 0.7; W5 and W6 up to 15 % |
| Node's own measure of the loop's delay in place of under-pressure, which asked for the memory ten times a second | 0.7 % of a profile |
| A connection does not keep its last request and reply | nothing here, with 32 connections; with 1,500 half of what the collector copies ([reliability](../docs/reliability.md#twice-the-capacity)) |
| \`--single-threaded-gc\`, \`--no-allocation-site-pretenuring\` | nothing that stood out of the noise |
| \`--max-semi-space-size=16\` instead of 32 | 0 to 10 % dearer, some 30 MB less |
| \`--heap-growing-percent=50\`, which keeps the memory under 200 MB | 0 to 5 % dearer; all figures here are with it |

## As it goes on, and as it starts

\`npm run bench:steady\`, ten minutes of all workloads at once after a minute to warm up: 5,593 requests a second in the first minute, 5,327 in the last (-4.8 %; between them 5,305 to 6,127), the server's CPU for each 174.6 and 180.1 µs (+3.1 %), resident memory 190 MB and 191 MB, 193 MB at most.

\`npm run bench:start\`, ten starts each: ready after 891 ms (820-1,077) on a migrated PostgreSQL, then 121 MB resident; after 1,500 ms (1,287-1,814) on an existing embedded folder, then 353 MB.`
