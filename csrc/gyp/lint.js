// Checks the format of the C++ and CUDA sources; --write mends it. Warnings are the compilers' part: with
// WARPGRAPH_WERROR=1 a build fails on them.
const { execFileSync } = require('node:child_process')
const { join } = require('node:path')
const { files } = require('./toolkit')

const root = join(__dirname, '..', '..')
const mode = process.argv.includes('--write') ? ['-i'] : ['--dry-run', '--Werror']
const { clangFormatPath } = require('clang-format-node')
execFileSync(clangFormatPath, [...mode, ...files('.h', '.cuh', '.cc', '.cu')], {
  cwd: root,
  stdio: 'inherit',
})
