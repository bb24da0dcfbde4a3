export interface LinePlot {
  readonly title: string
  readonly xLabel: string
  readonly yLabel: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

const [width, height] = [720, 420]
const margin = { left: 70, right: 20, top: 44, bottom: 54 }

/** A line through points as an SVG image, both axes from 0. */
export function linePlot({ title, xLabel, yLabel, points }: LinePlot): string {
  const xTicks = ticks(Math.max(...points.map(([x]) => x)))
  const yTicks = ticks(Math.max(...points.map(([, y]) => y)))
  const x = (value: number) => {
    return margin.left + (value / xTicks.at(-1)!) * (width - margin.left - margin.right)
  }
  const y = (value: number) => {
    return height - margin.bottom - (value / yTicks.at(-1)!) * (height - margin.top - margin.bottom)
  }
  const text = (at: [number, number], anchor: string, content: string, extra = '') =>
    `<text x="${at[0].toFixed(1)}" y="${at[1].toFixed(1)}" text-anchor="${anchor}"${extra}>${escaped(content)}</text>`
  const line = (from: [number, number], to: [number, number]) =>
    `<path d="M${from.map((v) => v.toFixed(1))}L${to.map((v) => v.toFixed(1))}" stroke="#ddd"/>`
  const [left, right, bottom] = [margin.left, width - margin.right, height - margin.bottom]
  const middle = (margin.top + bottom) / 2
  const path = points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(' ')
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">`,
    `<rect width="${width}" height="${height}" fill="white"/>`,
    text([width / 2, 26], 'middle', title, ' font-size="16"'),
    ...yTicks.map((value) => line([left, y(value)], [right, y(value)])),
    ...yTicks.map((value) => text([left - 8, y(value) + 4], 'end', String(value))),
    ...xTicks.map((value) => line([x(value), bottom], [x(value), bottom + 5])),
    ...xTicks.map((value) => text([x(value), bottom + 20], 'middle', String(value))),
    text([(left + right) / 2, height - 12], 'middle', xLabel),
    text([18, middle], 'middle', yLabel, ` transform="rotate(-90 18 ${middle})"`),
    `<polyline points="${path}" fill="none" stroke="#1666c0" stroke-width="1.5"/>`,
    '</svg>',
    '',
  ].join('\n')
}

/** Round numbers from 0 to the first that is not below `most`: four to six of them, two when `most` is 0. */
function ticks(most: number): number[] {
  const power = 10 ** Math.floor(Math.log10(most || 1))
  const step = power * [0.2, 0.5, 1, 2].find((part) => most <= power * part * 5)!
  const count = Math.max(Math.ceil(most / step), 1)
  return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(6)))
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
