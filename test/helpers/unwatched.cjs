/**
 * Keeps tap from watching which files each process loads, by `--require`, before tap's own. Only coverage and `--changed`
 * ask, which nobody does here; and it would do so in every process that a test starts, which then is not what people
 * start: slower by a second, and some do not start at all (the compiler).
 */
const { env, pid } = process
env.__TAPJS_PROCESSINFO_TESTING_NO_REGISTER__ = String(pid)
env._TAPJS_PROCESSINFO_EXCLUDE_ = '/./'
const options = (env.NODE_OPTIONS ?? '').replaceAll(/"?--import=[^\s"]*processinfo[^\s"]*"?/g, '').trim()
if (options) env.NODE_OPTIONS = options
else delete env.NODE_OPTIONS
