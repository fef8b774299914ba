/** The discussion of the results in RESULTS.md; revise it whenever the results change. */
export const NOTES = `## Goals

This service uses less CPU than every peer in each workload. It reaches the goal in 40 of 42 comparisons: of 14 rows (seven workloads, key and token), twelve reach it in all three runs, and all fourteen in the median of the three runs.

- **W3 with a token** is 0.96 in the first run (0.93-1.03), 1.13 and 1.10 in the others; the key, which runs the same code, is 1.21, 1.10 and 1.13. In that run the same statement cost PostgreSQL 65 to 76 µs with the token and 45 to 50 with the key: fewer requests arrived in the same turn of the event loop and shared a packet, which costs CPU on both sides. The pattern depends on how the 32 connections synchronize, and persists for the whole run.
- **W6 with a key** is 0.90 rounded to two digits and less with three in the last run (0.64-1.04), 0.98 and 0.94 in the others. A CPU profile of W6 (\`--profile\`) divides 95 µs as follows; the reference's values are in parentheses:

  | Part | µs |
  |---|--:|
  | Writing the response and its header fields to the socket (19 header fields, 4 in the reference) | 20 (17) |
  | Parsing the header section and running the hooks | 14 (4) |
  | Garbage collection | 12 (8) |
  | Parsing PostgreSQL's responses | 11 (10) |
  | Sending the statements | 11 (17) |
  | Parsing and validating the body, and the change itself | 8 (3) |
  | Serializing the response and its entity tag | 5 (2) |
  | The rest of Node.js and Fastify | 14 (14) |

  No single part dominates. The features that the reference does not have cost about 20 µs per write.

The following optimizations were measured one after the other, alternating with the previous state, mostly while the machine was busy. The values show the order of magnitude only.

| Change | Effect |
|---|---|
| The statements of one turn of the event loop share packets, at most eight in each | W5 and W6: a fifth less CPU in the server, a quarter less in PostgreSQL |
| No promise for values that are cached (credentials, limits, a free slot); a new row is not copied on its way to the statement; plain ASCII text is not normalized | W1 a tenth, W5 a quarter |
| Included resources are added to the row instead of a copy of it; the cursor of a page is cached | W4 a quarter: V8 reads the properties of such a copy ten times as slowly |
| \`await\` of the driver's promise instead of callbacks | W2: promoted garbage per collection falls from 2.9 MB to 0.4 MB; the CPU time of other threads is halved |
| No Map or Set with thousands of insertions and deletions per second: their old tables keep the deleted entries alive | W6: promoted garbage per collection falls from 2.2 MB to 0.7 MB; W5 and W6 up to 15 % |
| Node.js's event loop delay monitor instead of under-pressure, which read the memory usage ten times per second | 0.7 % of a profile |
| A connection does not keep its last request and response | No effect with 32 connections; with 1,500, the garbage collector copies half as much ([reliability](MEASUREMENTS.md#twice-the-capacity)) |
| \`--single-threaded-gc\` | No significant effect |
| The V8 flags of \`npm start\` | [Memory](MEASUREMENTS.md#memory): half the p99 of lists and changes |

## Steady load and start

\`npm run bench:steady\`, ten minutes of all workloads together after one minute of warm-up: 5,593 requests per second in the first minute, 5,327 in the last (-4.8 %; 5,305 to 6,127 between them); CPU time of the server per request 174.6 and 180.1 µs (+3.1 %); resident memory 190 MB and 191 MB, 193 MB at most.

\`npm run bench:start\`, ten starts of each kind: ready after 891 ms (820-1,077) on a migrated PostgreSQL, then 121 MB resident; ready after 1,500 ms (1,287-1,814) on an existing embedded folder, then 353 MB.`
