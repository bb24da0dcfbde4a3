import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ts from 'typescript'

/**
 * The README's complete programs, which are its `ts` blocks that begin with a comment naming their file: they must
 * compile under the repository's own settings, run, and print what the comments after `console.log(…)` say.
 */
const root = join(__dirname, '..')
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const blocks = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code!)
const files = blocks.map((code) => ({ name: /^\/\/ (\S+)\n/.exec(code)?.[1] ?? '', code }))
const programs = files.filter(({ name }) => name.endsWith('.mts'))
const tests = files.filter(({ name }) => name.endsWith('.test.ts'))

jest.setTimeout(120_000)

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'warpgraph-readme-'))
  for (const { name, code } of files) writeFileSync(join(folder, name), code)
})
afterAll(() => rmSync(folder, { recursive: true }))

function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  return { status, stdout, stderr }
}

test('every block is a program or a test', () => {
  expect(programs.length).toBeGreaterThan(0)
  expect(programs.length + tests.length).toBe(blocks.length)
})

test.each(programs)('$name prints what its comments say', ({ name, code }) => {
  const claims = [...code.matchAll(/console\.log\(.*\) \/\/ (.*)$/gm)].map(([, claim]) => claim)
  expect(claims).toHaveLength(code.split('console.log(').length - 1)
  const { status, stdout, stderr } = run(require.resolve('tsx/cli'), join(folder, name))
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
  const { status, stderr } = run(require.resolve('jest/bin/jest'), '--config', JSON.stringify(config))
  expect(stderr).toContain('1 passed, 1 total')
  expect(status).toBe(0)
})

test('all of them compile', () => {
  const path = join(root, 'tsconfig.json')
  const { config } = ts.readConfigFile(path, ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root, {}, path)
  const program = ts.createProgram(
    files.map(({ name }) => join(folder, name)),
    { ...options, typeRoots: [join(root, 'node_modules', '@types')] },
  )
  const problems = ts.getPreEmitDiagnostics(program)
  expect(problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([])
})
