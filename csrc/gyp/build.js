// Builds the addon where nvcc is found, for the architectures of WARPGRAPH_CUDA_ARCH (all when it is not set).
//
//   --if-gpu   only where an NVIDIA GPU is present, and then for that GPU alone: what a fresh clone needs before its
//              tests or its demo can use the card. A build that fails is reported, and the CPU is used.
const { execFileSync, spawnSync } = require('node:child_process')
const { join } = require('node:path')
const { nvcc } = require('./toolkit')

const root = join(__dirname, '..', '..')

/** Compute capabilities of the GPUs here, as WARPGRAPH_CUDA_ARCH takes them; empty where there are none. */
function presentArchitectures() {
  const query = ['--query-gpu=compute_cap', '--format=csv,noheader']
  const { status, stdout } = spawnSync('nvidia-smi', query, { encoding: 'utf8' })
  if (status !== 0) return ''
  const found = stdout.match(/\d+\.\d+/g) ?? []
  return [...new Set(found.map((capability) => capability.replace('.', '')))].join(',')
}

function build(architectures) {
  const env = { ...process.env, WARPGRAPH_CUDA_ARCH: process.env.WARPGRAPH_CUDA_ARCH || architectures }
  const nodeGyp = require.resolve('node-gyp/bin/node-gyp.js')
  for (const step of ['configure', 'build']) {
    execFileSync(process.execPath, [nodeGyp, step, '--silent', '--jobs=max'], {
      cwd: root,
      env,
      stdio: 'inherit',
    })
  }
  console.log(`built ${join(root, 'build', 'Release', 'warpgraph.node')}`)
}

function main(args) {
  const onlyForGpu = args.includes('--if-gpu')
  const present = onlyForGpu ? presentArchitectures() : 'all'
  if (!present) return
  if (!nvcc()) {
    console.log('nvcc was not found: the native addon is not built, and everything runs on the CPU')
    return
  }
  try {
    build(present)
  } catch (error) {
    if (!onlyForGpu) throw error
    console.warn(`the native addon could not be built (${error.message}); npm run build:addon shows why`)
  }
}

main(process.argv.slice(2))
