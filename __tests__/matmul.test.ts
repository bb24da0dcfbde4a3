import { plain, withMatmul } from './matmul'
import { floatDTypes } from './tolerance'

withMatmul('the matrix product of the addon', ({ check }) => {
  describe.each(floatDTypes)('%s', (dtype) => {
    test.each([false, true])('sizes around those of tiles, transposed: %p', (transposed) => {
      for (const large of [false, true]) {
        for (const [m, n, k] of [
          [1, 1, 1],
          [1, 7, 3],
          [17, 64, 64],
          [31, 65, 33],
          [33, 8, 128],
          [63, 129, 65],
          [65, 33, 512],
          [128, 128, 64],
          [129, 256, 72],
          [130, 264, 200],
        ] as const) {
          for (const gap of [0, 1, 8]) check({ ...plain, dtype, m, n, k, transposed, large, gap })
        }
      }
    })

    test('every tile, and batches', () => {
      for (const large of [false, true]) {
        check({ ...plain, dtype, batch: 40, m: 30, n: 72, k: 40, large })
        check({ ...plain, dtype, batch: 50, m: 20, n: 260, k: 40, large })
        check({ ...plain, dtype, batch: 50, m: 20, n: 260, k: 72, large, transposed: true })
        check({ ...plain, dtype, batch: 40, m: 70, n: 200, k: 24, large, shared: true })
        check({ ...plain, dtype, batch: 12, m: 300, n: 320, k: 72, large, transposed: true })
        check({ ...plain, dtype, batch: 50, m: 70, n: 136, k: 520, large })
        check({ ...plain, dtype, batch: 3, m: 64, n: 128, k: 1032, large, transposed: true })
        check({ ...plain, dtype, batch: 100, m: 65, n: 264, k: 64, large })
      }
    })

    test('rows gathered by pages, rows that do not count', () => {
      for (const large of [false, true]) {
        for (const [size, firstRow] of [
          [16, 0],
          [16, 48],
          [64, 128],
          [128, 5],
          [1, 3],
          [256, 256],
        ] as const) {
          const pages = { size, firstRow }
          const product = { ...plain, dtype, batch: 3, m: 150, n: 136, k: 72, large, pages }
          check(product)
          check({ ...product, limits: { rows: [150, 0, 77], offset: firstRow } })
        }
        check({
          ...plain,
          dtype,
          batch: 4,
          m: 90,
          n: 40,
          k: 16,
          large,
          limits: { rows: [0, 1, 64, 90], offset: 0 },
        })
      }
    })
  })

  test('float32 keeps its accuracy over long sums, one TF32 product its own', () => {
    for (const transposed of [false, true]) {
      check({ ...plain, dtype: 'float32', m: 70, n: 80, k: 2048, transposed })
      check({ ...plain, dtype: 'float32', m: 70, n: 80, k: 2048, transposed, tf32: true })
    }
  })
})
