import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { linePlot } from '../examples/line_plot'
import { testDevices } from './devices'

const root = join(__dirname, '..')

function decode(...args: string[]) {
  const command = [require.resolve('tsx/cli'), join(root, 'examples', 'mla_decode.ts'), ...args]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: root, encoding: 'utf8' })
  return { status, stdout, stderr }
}

describe('the decoding example', () => {
  jest.setTimeout(120_000)
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'warpgraph-'))
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  test.each(
    testDevices.flatMap((device) => [
      // Full pages alone, a full page and an open one, less than a page.
      [device, ['--tokens', '128', '--batch', '3']] as const,
      [device, ['--tokens', '65', '--size', 'deepseek', '--batch', '1']] as const,
      [device, ['--tokens', '1']] as const,
    ]),
  )('decodes, checks and plots on %s with %j', (device, args) => {
    const plot = join(folder, 'plot.svg')
    const { status, stdout, stderr } = decode('--device', device, '--plot', plot, ...args)
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^\d+ tokens\/s in all/m)
    expect(stdout).toMatch(/^Largest difference .*: ok$/m)
    expect(status).toBe(0)
    expect(readFileSync(plot, 'utf8')).toMatch(/^<svg [\s\S]*<polyline points="[\d. ,]+"[\s\S]*<\/svg>\n$/)
  })

  test.each([
    [['--length', '3'], "mla_decode: Unknown option '--length' (--help lists the options)"],
    [['--size', 'huge'], 'mla_decode: --size is small or deepseek, not huge'],
    [['--tokens', '0'], 'mla_decode: --tokens is a number from 1 on, not 0'],
    [
      ['--plot', 'no/such/folder/plot.svg'],
      'mla_decode: --plot is a file in a folder that exists, not in no/such/folder',
    ],
    [['--plot', 'examples'], 'mla_decode: --plot is a file, not the folder examples'],
    [
      ['--device', 'tpu'],
      `mla_decode: setDefaultDevice: device must be 'cpu', 'cuda' or 'cuda:N', got "tpu"`,
    ],
  ])('%j is one line and exit code 2', (args, line) => {
    expect(decode(...args)).toEqual({ status: 2, stdout: '', stderr: line + '\n' })
  })

  test('--help', () => {
    const { status, stdout } = decode('--help')
    expect(stdout).toMatch(/^usage: npx tsx examples\/mla_decode\.ts/)
    expect(status).toBe(0)
  })

  test('a plot has round ticks and stands being flat', () => {
    const plot = (...points: [number, number][]) =>
      linePlot({ title: 'a < b', xLabel: 'x', yLabel: 'y', points })
    const ticks = (svg: string) => [...svg.matchAll(/>(\d[\d.]*)<\/text>/g)].map((match) => match[1])
    expect(ticks(plot([1, 0.31], [384, 0.28]))).toEqual([
      '0',
      '0.1',
      '0.2',
      '0.3',
      '0.4',
      '0',
      '100',
      '200',
      '300',
      '400',
    ])
    expect(ticks(plot([0, 0]))).toEqual(['0', '0.2', '0', '0.2'])
    expect(plot([0, 0])).toContain('a &lt; b')
    expect(plot([0, 0])).not.toContain('NaN')
  })
})
