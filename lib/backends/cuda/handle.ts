import type { BufferHandle } from '../../../typings/addon'
import type { Storage } from '../../storage'

/** What names a GPU's storage to the addon. */
export function handleOf(storage: Storage): BufferHandle {
  return storage.buffer as BufferHandle
}
