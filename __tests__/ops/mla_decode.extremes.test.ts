import { mlaDecode, tensor } from 'warpgraph'
import { notTested } from '../absent'
import { onEachDevice, testDevices } from '../devices'

// An axis of a grid ends at 65,535. With few sequences the same test runs everywhere, so that what it expects is itself
// tested.
if (testDevices.length === 1) notTested('65,540 sequences', 'no GPU')

onEachDevice('mlaDecode of many sequences', (device) => {
  test.each(device === 'cpu' ? [7] : [7, 65_540])('%i', (B) => {
    // One key each, so that a result is its latent; of several splits all but one are empty.
    const [H, R] = [33, 64]
    const make = (data: Float32Array, shape: readonly number[]) =>
      tensor(data, { shape, dtype: 'bfloat16', device })
    const latents = Float32Array.from({ length: B * R }, (_, i) => (i * 7) % 251)
    const cache = { kvLatent: make(latents, [B, 1, R]) }
    const qLatent = make(new Float32Array(B * H * R), [B, 1, H, R])
    for (const numSplits of [1, 2, 3]) {
      const out = mlaDecode(qLatent, cache, { scale: 1, numSplits })
      const data = out.dataSync()
      let wrong = 0
      for (let b = 0, i = 0; b < B; b++) {
        for (let h = 0; h < H; h++) {
          for (let r = 0; r < R; r++, i++) {
            if (data[i] !== latents[b * R + r]) wrong++
          }
        }
      }
      expect(wrong).toBe(0)
      out.dispose()
    }
  })
})
