// Puts the addon for this platform into prebuilds/, where the published package carries it: built for all
// architectures, stripped, and checked against the oldest system it must load on. Without nvcc there is nothing to
// put, and the package runs on the CPU alone; `--require` makes that a failure.
const { execFileSync } = require('node:child_process')
const { copyFileSync, mkdirSync, rmSync } = require('node:fs')
const { join } = require('node:path')
const { nvcc } = require('./toolkit')

const root = join(__dirname, '..', '..')

/** Debian 11, Ubuntu 20.04: the newest symbol versions that their libraries have. */
const floor = { GLIBC: '2.31', GLIBCXX: '3.4.28', CXXABI: '1.3.12' }

function main(args) {
  const folder = join(root, 'prebuilds', `${process.platform}-${process.arch}`)
  rmSync(folder, { recursive: true, force: true })
  if (!nvcc()) {
    if (args.includes('--require'))
      throw new Error('nvcc was not found: the package would carry no GPU addon')
    console.error('nvcc was not found: the package will carry no GPU addon')
    return
  }
  execFileSync(process.execPath, [join(__dirname, 'build.js')], {
    env: { ...process.env, WARPGRAPH_CUDA_ARCH: 'all', WARPGRAPH_RACECHECK: '' },
    stdio: ['ignore', process.stderr, 'inherit'], // npm pack --json owns the standard output
  })
  mkdirSync(folder, { recursive: true })
  const addon = join(folder, 'warpgraph.node')
  copyFileSync(join(root, 'build', 'Release', 'warpgraph.node'), addon)
  execFileSync('strip', ['--strip-unneeded', addon])
  checkFloor(addon)
}

function checkFloor(addon) {
  const symbols = execFileSync('objdump', ['-T', addon], { encoding: 'utf8' })
  const above = [...symbols.matchAll(/(GLIBC|GLIBCXX|CXXABI)_([\d.]+)\)?\s+(\S+)/g)].filter(
    ([, library, version]) => isNewer(version, floor[library]),
  )
  if (above.length === 0) return
  const list = above.map(([, library, version, symbol]) => `${symbol} (${library}_${version})`).join(', ')
  throw new Error(`the addon would not load on glibc ${floor.GLIBC}: it needs ${list}`)
}

function isNewer(version, limit) {
  return version.localeCompare(limit, 'en', { numeric: true }) > 0
}

main(process.argv.slice(2))
