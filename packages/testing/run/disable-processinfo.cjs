/**
 * Disables @tapjs/processinfo in the process of a test file; a `--require` runs before tap's `--import`.
 *
 * tap 21 has no option for it: `testArgv` of @tapjs/run adds `--import=@tapjs/processinfo/import` to every test file,
 * also with `disable-coverage`. The hook records loaded files for coverage and `--changed`, which this repository does
 * not use, and adds itself to NODE_OPTIONS of each child process. A child process then starts a second later, and
 * the TypeScript compiler does not start at all. There is no upstream issue about an option; tapjs/tapjs#1058 and #1059
 * describe how tap adds its loaders.
 *
 * These variables are internal to @tapjs/processinfo 3: the first skips its registration in the process with this id,
 * the second excludes every file from its loader. The runner has already added the hook to NODE_OPTIONS of this process.
 */
const { env, pid } = process
env.__TAPJS_PROCESSINFO_TESTING_NO_REGISTER__ = String(pid)
env._TAPJS_PROCESSINFO_EXCLUDE_ = '/./'
const options = (env.NODE_OPTIONS ?? '').replaceAll(/"?--import=[^\s"]*processinfo[^\s"]*"?/g, '').trim()
if (options) env.NODE_OPTIONS = options
else delete env.NODE_OPTIONS
