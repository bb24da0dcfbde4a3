import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ts from 'typescript'
import * as library from 'warpgraph'

/**
 * The README's complete files, which are its `ts`, `js` and `jsonc` blocks; each begins with a comment naming it.
 * Programs must compile under the repository's own settings, run, and print what the comments after `console.log(…)`
 * say; tests must pass, under the repository's settings and under those that the README gives.
 */
const root = join(__dirname, '..')
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const blocks = [...readme.matchAll(/^```(?:ts|js|jsonc)\n(.*?)^```$/gms)].map(([, code]) => code!)
const files = blocks.map((code) => ({ name: /^\/\/ (\S+)\n/.exec(code)?.[1] ?? '', code }))
const programs = files.filter(({ name }) => /\.[mc](ts|js)$/.test(name))
const tests = files.filter(({ name }) => name.endsWith('.test.ts'))
const settings = files.filter(({ name }) => ['jest.config.js', 'tsconfig.json'].includes(name))

jest.setTimeout(120_000)

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'warpgraph-readme-'))
  for (const { name, code } of files) writeFileSync(join(folder, name), code)
  // As in a project that has installed the library and ts-jest.
  const modules = join(folder, 'node_modules')
  mkdirSync(modules)
  symlinkSync(root, join(modules, 'warpgraph'))
  for (const name of ['ts-jest', '@types']) symlinkSync(join(root, 'node_modules', name), join(modules, name))
})
afterAll(() => rmSync(folder, { recursive: true }))

function run(args: readonly string[], cwd = root) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8' })
  return { status, stdout, stderr }
}

test('every block is a program, a test or settings', () => {
  expect(programs.length).toBeGreaterThan(0)
  expect(settings).toHaveLength(2)
  expect(programs.length + tests.length + settings.length).toBe(blocks.length)
})

test.each(programs)('$name prints what its comments say', ({ name, code }) => {
  const claims = [...code.matchAll(/console\.log\(.*\) \/\/ (.*)$/gm)].map(([, claim]) => claim)
  expect(claims).toHaveLength(code.split('console.log(').length - 1)
  const { status, stdout, stderr } = run([
    ...(name.endsWith('ts') ? [require.resolve('tsx/cli')] : []),
    join(folder, name),
  ])
  expect(stderr).toBe('')
  expect(stdout.trimEnd().split('\n')).toEqual(claims)
  expect(status).toBe(0)
})

test.each(tests)('$name passes', ({ name }) => {
  const config = {
    ...require('../jest.config.js'),
    rootDir: root,
    roots: [folder],
    testMatch: [`**/${name}`],
  }
  const { status, stderr } = run([require.resolve('jest/bin/jest'), '--config', JSON.stringify(config)])
  expect(stderr).toContain('1 passed, 1 total')
  expect(status).toBe(0)
})

test('the tests pass with the settings given', () => {
  const { status, stderr } = run([require.resolve('jest/bin/jest')], folder)
  expect(stderr).not.toContain('WARN')
  expect(stderr).toContain('1 passed, 1 total')
  expect(status).toBe(0)
})

test.each(Object.keys(library))('the reference names %s', (name) => {
  const reference = /^## API reference$.*?^## /ms.exec(readme)![0]
  expect(reference).toMatch(new RegExp(`^- (.*, )?\`${name}[(\`]`, 'm'))
})

test('all of them compile', () => {
  const path = join(root, 'tsconfig.json')
  const { config } = ts.readConfigFile(path, ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root, {}, path)
  const program = ts.createProgram(
    files.filter(({ name }) => name.endsWith('ts')).map(({ name }) => join(folder, name)),
    { ...options, typeRoots: [join(root, 'node_modules', '@types')] },
  )
  const problems = ts.getPreEmitDiagnostics(program)
  expect(problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([])
})
