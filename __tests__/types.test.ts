import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

const folder = join(__dirname, 'types')
const files = ['tensor.cts', 'ops.mts'].map((name) => join(folder, name))
const directive = /^\s*\/\/ @ts-expect-error/

function tsc(...args: string[]): { code: number | null; output: string } {
  const bin = join(__dirname, '..', 'node_modules', 'typescript', 'bin', 'tsc')
  const { status, stdout } = spawnSync(process.execPath, [bin, ...args], { cwd: folder, encoding: 'utf8' })
  return { code: status, output: stdout }
}

test('the built types accept what is right and refuse what is wrong, from CommonJS and from ES modules', () => {
  expect(tsc('-p', folder)).toEqual({ code: 0, output: '' })
}, 120_000)

test('the checked types are the built ones', () => {
  const { code, output } = tsc('-p', folder, '--listFilesOnly')
  expect(code).toBe(0)
  const ours = output.split('\n').filter((path) => /(dist|lib)\/index\.(d\.)?ts$/.test(path.trim()))
  expect(ours.map((path) => path.trim())).toContain(join(__dirname, '..', 'dist', 'index.d.ts'))
  expect(ours.some((path) => path.trim() === join(__dirname, '..', 'lib', 'index.ts'))).toBe(false)
}, 120_000)

test('every line that must not compile does not, by itself: nothing hides behind a directive', () => {
  const { config } = ts.readConfigFile(join(folder, 'tsconfig.json'), (path) => readFileSync(path, 'utf8'))
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, folder)
  const host = ts.createCompilerHost(options)
  const read = host.readFile
  // The same lines in the same places, the directives turned into plain comments.
  const strip = (text: string) => text.replaceAll('// @ts-expect-error', '//')
  host.readFile = (path) => (files.includes(path) ? strip(readFileSync(path, 'utf8')) : read(path))
  const program = ts.createProgram(files, options, host)
  const failing = ts.getPreEmitDiagnostics(program).map(({ file, start }) => {
    return `${file!.fileName}:${file!.getLineAndCharacterOfPosition(start!).line + 1}`
  })
  const expected = files.flatMap((path) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .flatMap((line, i) => (directive.test(line) ? [`${path}:${i + 2}`] : [])),
  )
  expect(expected.length).toBeGreaterThan(30)
  expect([...new Set(failing)].sort()).toEqual(expected.sort())
}, 120_000)
