// Link-time stand-ins for libpthread, libdl and librt as they were before glibc 2.34 moved them into libc.
//
// An addon linked against a new glibc binds pthread_create and its kin to version 2.34 and loads on no older system.
// Linked against these stubs first, it binds to the versions that those functions have had since 2.2.5, which every
// later glibc still provides. The stubs are empty and only seen by the linker. x86-64 only: other processors have
// other first versions, and keep the floor of the system they were built on.
const { execFileSync } = require('node:child_process')
const { mkdirSync, writeFileSync } = require('node:fs')
const { join } = require('node:path')

const root = join(__dirname, '..', '..')

const words = (text) => text.trim().split(/\s+/)
const prefixed = (prefix, text) => words(text).map((name) => prefix + name)

/** What cudart_static and libstdc++ use of each library, by symbol version. */
const libraries = {
  'libpthread.so.0': {
    'GLIBC_2.2.5': [
      ...prefixed('pthread_', 'create detach getspecific join key_create key_delete kill once setspecific'),
      ...prefixed('pthread_', 'condattr_setpshared mutex_trylock'),
      ...prefixed('pthread_mutexattr_', 'destroy init setpshared settype'),
      ...prefixed('pthread_rwlockattr_', 'destroy init setpshared'),
      ...prefixed(
        'pthread_rwlock_',
        'destroy init rdlock timedrdlock timedwrlock tryrdlock trywrlock unlock wrlock',
      ),
      ...prefixed('pthread_spin_', 'destroy init lock trylock unlock'),
      ...prefixed('sem_', 'destroy init post timedwait trywait wait'),
    ],
  },
  'libdl.so.2': {
    'GLIBC_2.2.5': words('dlclose dlerror dlopen dlsym dlvsym'),
    'GLIBC_2.3.4': ['dlmopen'],
  },
  'librt.so.1': { 'GLIBC_2.2.5': words('shm_open shm_unlink') },
}

/** Makes the stubs and gives their folder; null where they do not apply. */
function makeStubs() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return null
  const folder = join(root, 'build', 'glibc_stubs')
  mkdirSync(folder, { recursive: true })
  for (const [soname, versions] of Object.entries(libraries)) {
    const name = soname.replace(/\.so.*/, '')
    const source = join(folder, `${name}.c`)
    const map = join(folder, `${name}.map`)
    const symbols = Object.values(versions).flat()
    writeFileSync(source, symbols.map((symbol) => `void ${symbol}(void) {}\n`).join(''))
    const nodes = Object.entries(versions).map(
      ([version, list]) => `${version} { global: ${list.join('; ')}; };\n`,
    )
    writeFileSync(map, nodes.join(''))
    const [compiler, ...wrapped] = words(process.env.CC ?? 'cc')
    execFileSync(compiler, [
      ...wrapped,
      '-shared',
      '-nostdlib',
      '-fno-builtin',
      '-w',
      `-Wl,-soname,${soname}`,
      `-Wl,--version-script=${map}`,
      '-o',
      join(folder, `${name}.so`),
      source,
    ])
  }
  return folder
}

module.exports = { makeStubs }
