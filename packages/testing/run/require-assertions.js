/**
 * Fails each test that ends without an assertion, by `--import`: the list that it goes through was empty, or its
 * assertions went to another test. `scripts/test/vacuous-assertions.ts` finds what shows in the text of a test.
 */
import t from 'tap'

const watch = (test) => {
  test.on('subtestStart', watch)
  test.on('subtestEnd', ({ name, counts }) => {
    if (counts?.total === 0) test.fail(`"${name}" has no assertion`)
  })
}
watch(t)
