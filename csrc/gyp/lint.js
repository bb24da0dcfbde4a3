// Checks the C++ and CUDA sources: their format with clang-format (--write mends it), and with cppcheck, where it is
// installed, what a compiler does not see. Compiler warnings fail a build with WARPGRAPH_WERROR=1.
const { execFileSync, spawnSync } = require('node:child_process')
const { join } = require('node:path')
const { clangFormatPath } = require('clang-format-node')
const { files } = require('./toolkit')

const options = { cwd: join(__dirname, '..', '..'), stdio: 'inherit' }

function main(args) {
  const mode = args.includes('--write') ? ['-i'] : ['--dry-run', '--Werror']
  execFileSync(clangFormatPath, [...mode, ...files('.h', '.cuh', '.cc', '.cu')], options)
  if (spawnSync('cppcheck', ['--version']).status !== 0) {
    console.warn('cppcheck was not found: the C++ sources are checked for format only')
    return
  }
  const checks = [
    '--enable=warning,performance,portability',
    '--std=c++17',
    '--language=c++',
    '--error-exitcode=1',
  ]
  // It takes int64_t{blockIdx.x} for a block of statements, and <<<…>>> for nothing it knows.
  const exceptions = ['--suppress=constStatement', '--suppress=missingIncludeSystem', '--inline-suppr']
  execFileSync('cppcheck', ['--quiet', '-Icsrc', ...checks, ...exceptions, ...files('.cc', '.cu')], options)
}

main(process.argv.slice(2))
