/** Says what this machine cannot test, in one line: a test that is not run must be seen not to run. */
export function notTested(what: string, why: string): void {
  process.stdout.write(`not tested: ${what} (${why})\n`)
}
