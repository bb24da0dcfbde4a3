// Removes folders of the checkout, so that nothing of an earlier build is published or loaded: the names are arguments.
const { rmSync } = require('node:fs')
const { join } = require('node:path')

for (const folder of process.argv.slice(2)) {
  rmSync(join(__dirname, '..', '..', folder), { recursive: true, force: true })
}
