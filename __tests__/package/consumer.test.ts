import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import type { Info } from 'warpgraph'
import { notTested } from '../absent'

const root = join(__dirname, '..', '..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const npm = spawnSync('npm', ['--version'])
if (npm.error) notTested('the package as a user installs it', `npm cannot be run: ${npm.error.message}`)

/** Minutes, since npm may wait for a registry. */
const patience = 20 * 60_000

const program = `
  const graph = csr([0, 2, 3], BigInt64Array.of(0n, 1n, 0n))
  const x = tensor([[1], [2]], { device: 'cpu' })
  const values = await csrMax(graph, x).data()
  console.log(values.constructor.name, values.join(), segmentSoftmax(graph, tensor([0, 0, 5], { device: 'cpu' })).dataSync().join())
`
const printed = 'Float32Array 2,1 0.5,0.5,1\n'

/** The same program with what types add: it compiles only where they are found. */
const typed = `
  import { csr, csrMax, info, type Info, tensor, type Tensor } from 'warpgraph'
  const y: Tensor<'float16', 2> = csrMax(csr([0, 1], [0]), tensor([1], { dtype: 'float16', shape: [1, 1] }))
  const values: Float32Array = y.dataSync()
  const found: Info = info()
  // @ts-expect-error: integers have no maximum over neighbours
  csrMax(csr([0, 1], [0]), tensor([1], { dtype: 'int32', shape: [1, 1] }))
  console.log(values, found.addon.attempts.length)
`

;(npm.error ? describe.skip : describe)(
  'the package as a user installs it (better-sqlite3#1378, onnxruntime#22877)',
  () => {
    let folder: string
    let app: string
    let installed: string

    /** Runs a program, and fails with what it printed. */
    function run(command: string, args: readonly string[], cwd: string): string {
      const { status, stdout, stderr } = spawnSync(command, args, {
        cwd,
        encoding: 'utf8',
        env: environment(),
      })
      if (status !== 0)
        throw new Error(`${command} ${args.join(' ')} ended with ${status}\n${stdout}\n${stderr}`)
      return stdout
    }

    /** Without what \`npm test\` sets for its own scripts, and without this repository's choices. */
    function environment(): NodeJS.ProcessEnv {
      const own = ([name]: [string, unknown]) => !/^(npm_|WARPGRAPH_|NODE_ENV$|NODE_PATH$)/.test(name)
      return Object.fromEntries(Object.entries(process.env).filter(own))
    }

    function filesIn(top: string): string[] {
      const entries = readdirSync(top, { recursive: true, withFileTypes: true })
      return entries
        .filter((entry) => entry.isFile())
        .map((entry) => relative(top, join(entry.parentPath, entry.name)))
    }

    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'warpgraph-consumer-'))
      // What the package's `files` name is packed as it was built, without the scripts that build it: they compile the
      // addon for every architecture, which is publishing's part and .ci/run's.
      run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], root)
      app = join(folder, 'app')
      installed = join(app, 'node_modules', 'warpgraph')
      mkdirSync(app)
      writeFileSync(join(app, 'package.json'), '{ "name": "app", "private": true }')
      const options = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
      run('npm', ['install', ...options, join(folder, `warpgraph-${manifest.version}.tgz`)], app)
    }, patience)

    afterAll(() => rmSync(folder, { recursive: true, force: true }))

    test('holds what it needs and nothing else', () => {
      const files = filesIn(installed)
      const expected = [
        'package.json',
        'README.md',
        'LICENSE',
        'CHANGELOG.md',
        'dist/index.js',
        'dist/index.d.ts',
        'dist/cli.js',
        'typings/addon.d.ts',
      ]
      expect(expected.filter((file) => !files.includes(file))).toEqual([])
      const tops = new Set(files.map((file) => file.split('/')[0]!))
      const allowed = [...manifest.files, 'package.json', 'README.md', 'LICENSE', 'prebuilds']
      expect([...tops].filter((top) => !allowed.includes(top))).toEqual([])
      // Tests, the addon's sources and its build are the repository's; a binding.gyp would make npm run node-gyp.
      expect(
        files.filter((file) =>
          /(^|\/)(__tests__|build|node_modules)\/|\.(cc|cu|gyp|o|tsbuildinfo)$|\.test\./.test(file),
        ),
      ).toEqual([])
    })

    test('every source map names sources that are there', () => {
      for (const file of filesIn(installed).filter((name) => name.endsWith('.map'))) {
        const { sources } = JSON.parse(readFileSync(join(installed, file), 'utf8'))
        for (const source of sources) expect(existsSync(join(installed, file, '..', source))).toBe(true)
      }
    })

    test('carries the prebuilt addon that was packed here, and loads no other', () => {
      const addon = join('prebuilds', `${process.platform}-${process.arch}`, 'warpgraph.node')
      const packed = existsSync(join(root, addon))
      if (!packed) notTested('the prebuilt addon in the package', 'none was built: npm run pack:addon')
      expect(filesIn(installed).includes(addon)).toBe(packed)
      const found = JSON.parse(run('npx', ['--no-install', 'warpgraph', 'info', '--json'], app))
      expect(found.addon.path).toBe(packed ? join(installed, addon) : null)
    })

    test('runs nothing when it is installed, so that npm with allowScripts has nothing to ask about', () => {
      const { scripts, gypfile } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
      expect(Object.keys(scripts).filter((name) => /^(pre|post)?(install|prepare)$/.test(name))).toEqual([])
      expect(gypfile).toBe(false)
      const lock = JSON.parse(readFileSync(join(app, 'node_modules', '.package-lock.json'), 'utf8'))
      const packages = Object.entries<{ hasInstallScript?: boolean }>(lock.packages)
      expect(packages.map(([path]) => path)).toContain('node_modules/warpgraph')
      expect(packages.filter(([, { hasInstallScript }]) => hasInstallScript)).toEqual([])
    })

    test('passes publint', () => {
      const tarball = join(folder, `warpgraph-${manifest.version}.tgz`)
      const bin = join(root, 'node_modules', 'publint', 'src', 'cli.js')
      expect(run(process.execPath, [bin, tarball, '--strict'], folder)).toMatch(/All good!/)
    }, 60_000)

    test('works from CommonJS', () => {
      writeFileSync(
        join(app, 'use.cjs'),
        `const { csr, csrMax, segmentSoftmax, tensor } = require('warpgraph')\nasync function main() {${program}}\nmain()`,
      )
      expect(run(process.execPath, ['use.cjs'], app)).toBe(printed)
    })

    test('works from an ES module, by named imports', () => {
      writeFileSync(
        join(app, 'use.mjs'),
        `import { csr, csrMax, segmentSoftmax, tensor } from 'warpgraph'\n${program}`,
      )
      expect(run(process.execPath, ['use.mjs'], app)).toBe(printed)
    })

    test('both get the same classes', () => {
      writeFileSync(
        join(app, 'same.mjs'),
        `import { createRequire } from 'node:module'
       import * as esm from 'warpgraph'
       const cjs = createRequire(import.meta.url)('warpgraph')
       console.log(esm.Tensor === cjs.Tensor, cjs.tensor(1, { device: 'cpu' }) instanceof esm.Tensor)
       console.log(Object.keys(cjs).filter((name) => esm[name] !== cjs[name]).join())`,
      )
      expect(run(process.execPath, ['same.mjs'], app)).toBe('true true\n\n')
    })

    test.each([
      ['use.cts', 'node16'],
      ['use.mts', 'node16'],
      ['use.ts', 'bundler'],
    ])(
      'its types are found from %s with moduleResolution %s',
      (file, moduleResolution) => {
        writeFileSync(join(app, file), typed)
        const module = moduleResolution === 'bundler' ? 'preserve' : moduleResolution
        const types = join(root, 'node_modules', '@types')
        const options = ['--strict', '--noEmit', '--target', 'es2022', '--lib', 'es2023,esnext.disposable']
        const where = [
          '--module',
          module,
          '--moduleResolution',
          moduleResolution,
          '--types',
          'node',
          '--typeRoots',
          types,
        ]
        const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
        expect(run(process.execPath, [tsc, ...options, ...where, file], app)).toBe('')
      },
      60_000,
    )

    test('npx warpgraph info', () => {
      const found: Info = JSON.parse(run('npx', ['--no-install', 'warpgraph', 'info', '--json'], app))
      expect(found.warpgraph).toBe(manifest.version)
      expect(found.addon.attempts.map(({ source }) => source)[0]).toBe('build')
      const carried = existsSync(join(installed, 'prebuilds'))
      expect(found.addon.path).toBe(
        carried
          ? join(installed, 'prebuilds', `${process.platform}-${process.arch}`, 'warpgraph.node')
          : null,
      )
      expect(run('npx', ['--no-install', 'warpgraph', 'info'], app)).toMatch(/^default +(cpu|cuda:0)$/m)
    }, 60_000)

    test('warpgraph/testing works, without jest', () => {
      writeFileSync(
        join(app, 'testing.mjs'),
        `import { csr, csrMax, tensor } from 'warpgraph'
       import { compareDevices } from 'warpgraph/testing'
       const graph = csr([0, 1], [0])
       const { ok, devices } = await compareDevices((x) => csrMax(graph, x), [tensor([[3]])], { devices: ['cpu'] })
       console.log(ok, devices[0].device)`,
      )
      expect(run(process.execPath, ['testing.mjs'], app)).toBe('true cpu\n')
    })

    test('what is not exported cannot be reached', () => {
      const deep = spawnSync(process.execPath, ['-e', "require('warpgraph/dist/storage.js')"], {
        cwd: app,
        encoding: 'utf8',
      })
      expect(deep.status).toBe(1)
      expect(deep.stderr).toContain('ERR_PACKAGE_PATH_NOT_EXPORTED')
    })
  },
)
