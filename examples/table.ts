/** Rows as text, columns padded to the widest cell. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, ...rows]
  const widths = header.map((_, col) => Math.max(...lines.map((line) => line[col]!.length)))
  const rule = widths.map((width) => '-'.repeat(width))
  return [header, rule, ...rows]
    .map((line) => line.map((cell, col) => cell.padEnd(widths[col]!)).join('  '))
    .map((line) => line.trimEnd())
    .join('\n')
}
