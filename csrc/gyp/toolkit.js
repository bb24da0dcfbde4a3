// Answers binding.gyp's questions about the CUDA toolkit and this addon's sources, one per call:
//   node csrc/gyp/toolkit.js nvcc | include | lib | architectures | flags | headers | sources | stamp
// nvcc is looked for in CUDA_HOME, CUDA_PATH, the PATH and /usr/local/cuda; where there is none the answers are empty.
const { execFileSync, spawnSync } = require('node:child_process')
const { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } = require('node:fs')
const { delimiter, join, resolve } = require('node:path')

const { makeStubs } = require('./glibc_stubs')

const root = join(__dirname, '..', '..')

/** Compute capabilities that get machine code, as far as the toolkit knows them. */
const supported = [75, 80, 86, 89, 90, 100, 120]

function nvcc() {
  const homes = [process.env.CUDA_HOME, process.env.CUDA_PATH]
    .filter(Boolean)
    .map((home) => join(home, 'bin'))
  const folders = [...homes, ...(process.env.PATH ?? '').split(delimiter), '/usr/local/cuda/bin']
  return folders.map((folder) => join(folder, 'nvcc')).find((file) => existsSync(file)) ?? ''
}

/** The toolkit's folder as nvcc itself tells it, since nvcc on the PATH may be a link or a wrapper. */
function home() {
  const { stderr } = spawnSync(nvcc(), ['--dryrun', '-x', 'cu', '/dev/null'], { encoding: 'utf8' })
  const top = /TOP=(.*)/.exec(stderr)
  if (top === null) throw new Error(`${nvcc()} --dryrun does not name its toolkit's folder`)
  return resolve(top[1])
}

/** The folder under the toolkit that holds a file; distributions differ in where they put it. */
function folderOf(file, ...candidates) {
  const folders = candidates.map((candidate) => join(home(), candidate))
  return folders.find((folder) => existsSync(join(folder, file))) ?? folders[0]
}

function architectures() {
  const asked = process.env.WARPGRAPH_CUDA_ARCH || 'all'
  const known = execFileSync(nvcc(), ['--list-gpu-code'], { encoding: 'utf8' }).match(/\d+/g).map(Number)
  const wanted = asked === 'all' ? supported : asked.split(/[ ,]+/).map(Number)
  const unknown = wanted.filter((arch) => !known.includes(arch))
  if (asked !== 'all' && unknown.length > 0) {
    throw new Error(
      `WARPGRAPH_CUDA_ARCH: nvcc knows no compute capability ${unknown.join(', ')}; it knows ${known.join(', ')}`,
    )
  }
  return wanted.filter((arch) => known.includes(arch))
}

/** Hopper's matrix and copy instructions exist only in the target named 90a, which every card of 9.0 runs. */
const target = (arch) => (arch === 90 ? '90a' : String(arch))

/** nvcc's own words on its version. */
function version() {
  return execFileSync(nvcc(), ['--version'], { encoding: 'utf8' })
}

/** The toolkit's version, refused where its assembler lacks instructions that the kernels have. */
function release() {
  const [, major, minor] = /release (\d+)\.(\d+)/.exec(version()).map(Number)
  if (major < 12 || (major === 12 && minor < 1)) {
    throw new Error(`the addon needs CUDA 12.1 or later, and ${nvcc()} is of ${major}.${minor}`)
  }
  return [major, minor]
}

/**
 * An eighth of the size, since the machine codes of one kernel are much alike. Older drivers cannot unpack it; those
 * that run what CUDA 13 builds can.
 */
function compression() {
  return release()[0] >= 13 ? ['--compress-mode=size'] : []
}

/** Machine code for each capability; PTX only for the newest, since older drivers refuse newer PTX. */
function flags() {
  const all = architectures()
  const code = all.map(target).map((arch) => `-gencode=arch=compute_${arch},code=sm_${arch}`)
  const newest = Math.max(...all)
  const warnings = ['-Wall', '-Wextra', ...(process.env.WARPGRAPH_WERROR ? ['-Werror'] : [])]
  return [
    ...code,
    `-gencode=arch=compute_${newest},code=compute_${newest}`,
    '-std=c++17',
    '-O3',
    ...(process.env.WARPGRAPH_RACECHECK ? ['-DWARPGRAPH_RACECHECK'] : []),
    '--threads=2',
    ...compression(),
    '-Xcompiler',
    ['-fPIC', '-fvisibility=hidden', ...warnings].join(','),
    ...(process.env.WARPGRAPH_WERROR ? ['--Werror', 'all-warnings'] : []),
  ]
}

function files(...endings) {
  const found = readdirSync(join(root, 'csrc'), { recursive: true }).map((file) => `csrc/${file}`)
  return found.filter((file) => endings.some((ending) => file.endsWith(ending))).sort()
}

/** A file that changes when the flags or the compiler do, so that make rebuilds: it looks at files only. */
function stamp() {
  const path = join('build', 'nvcc_flags')
  const text = [version(), ...flags()].join('\n')
  mkdirSync(join(root, 'build'), { recursive: true })
  if (!existsSync(join(root, path)) || readFileSync(join(root, path), 'utf8') !== text) {
    writeFileSync(join(root, path), text)
  }
  return path
}

const answers = {
  nvcc,
  include: () => folderOf('cuda_runtime_api.h', 'include', 'targets/x86_64-linux/include'),
  // The stubs come first: the linker takes the first definition it meets.
  lib: () =>
    [makeStubs(), folderOf('libcudart_static.a', 'lib64', 'targets/x86_64-linux/lib', 'lib')]
      .filter(Boolean)
      .map((folder) => `-L${folder}`)
      .join('\n'),
  architectures: () => architectures().join(' '),
  flags: () => flags().join('\n'),
  headers: () => files('.h', '.cuh').join('\n'),
  sources: () => files('.cc', '.cu').join('\n'),
  stamp,
  werror: () => (process.env.WARPGRAPH_WERROR ? '-Werror' : ''),
}

if (require.main === module) {
  const [question] = process.argv.slice(2)
  console.log(question === 'nvcc' || nvcc() ? answers[question]() : '')
}

module.exports = { nvcc, files }
