import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** The package's folder: what `require('.')` finds in a child process. */
export const root = join(__dirname, '..', '..')

/** How a child process ended. */
export interface Ended {
  readonly code: number | null
  readonly signal: string | null
  readonly stdout: string
  readonly stderr: string
}

interface RunOptions {
  /** Set in the child's environment; removed from it where undefined. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly nodeArgs?: readonly string[]
  readonly cwd?: string
}

/** Runs Node as a user's program would run it: on the built package, outside jest. */
export function runNode(args: readonly string[], { env, nodeArgs = [], cwd = root }: RunOptions = {}): Ended {
  if (!existsSync(join(root, 'dist', 'index.js'))) throw new Error('dist/ is missing: npm run build:js')
  const { status, signal, stdout, stderr, error } = spawnSync(process.execPath, [...nodeArgs, ...args], {
    cwd,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    timeout: 120_000,
    maxBuffer: 1 << 26,
  })
  if (error) throw error
  return { code: status, signal, stdout, stderr }
}

/** Runs `__tests__/programs/NAME.cjs`. */
export function runProgram(name: string, args: readonly string[], options?: RunOptions): Ended {
  return runNode([join(__dirname, `${name}.cjs`), ...args], options)
}
