import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import bindings from 'bindings'
import type { Addon } from '../../../typings/addon'
import { DeviceError, type DeviceErrorCode } from '../../errors'

/** One place where the addon was looked for, and what happened there. */
export interface LoadAttempt {
  readonly source: 'environment' | 'build' | 'prebuild'
  readonly path: string
  /** Why it was not loaded; null when it was. */
  readonly failure: string | null
}

export interface LoadedAddon {
  /** Null when no place had an addon that loads. */
  readonly addon: Addon | null
  readonly path: string | null
  readonly attempts: readonly LoadAttempt[]
}

/** The package's own folder, from lib/backends/cuda and dist/backends/cuda alike. */
export const packageRoot = join(__dirname, '..', '..', '..')

let loaded: LoadedAddon | undefined

/**
 * The native addon. The only place that loads it: the file named by `WARPGRAPH_ADDON`, else what was built here
 * (build/Release), else the prebuild that the package carries. Every failure is kept for `npx warpgraph info`.
 * The environment variable, when set, is the only place that is tried: a chosen addon is never silently replaced.
 */
export function loadAddon(): LoadedAddon {
  loaded ??= tryAll()
  return loaded
}

function tryAll(): LoadedAddon {
  const attempts: LoadAttempt[] = []
  for (const { source, path, open } of candidates()) {
    try {
      if (!existsSync(path)) throw new Error('no such file')
      // A copy, since V8 takes what require gives for a dictionary, and looks a function up in it at each call.
      const addon = { ...open() }
      addon.setDeviceErrorFactory(
        (message, code, cudaName) => new DeviceError(message, code as DeviceErrorCode, cudaName),
      )
      attempts.push({ source, path, failure: null })
      return { addon, path, attempts }
    } catch (error) {
      attempts.push({ source, path, failure: error instanceof Error ? error.message : String(error) })
    }
  }
  return { addon: null, path: null, attempts }
}

interface Candidate {
  readonly source: LoadAttempt['source']
  readonly path: string
  open(): Addon
}

function candidates(): Candidate[] {
  const chosen = process.env.WARPGRAPH_ADDON
  if (chosen) {
    const path = resolve(chosen)
    return [{ source: 'environment', path, open: () => require(path) }]
  }
  const built = join(packageRoot, 'build', 'Release', 'warpgraph.node')
  const prebuilt = join(packageRoot, 'prebuilds', `${process.platform}-${process.arch}`, 'warpgraph.node')
  return [
    {
      source: 'build',
      path: built,
      open: () =>
        bindings({
          bindings: 'warpgraph',
          module_root: packageRoot,
          try: [['module_root', 'build', 'Release', 'bindings']],
        }),
    },
    { source: 'prebuild', path: prebuilt, open: () => require(prebuilt) },
  ]
}
