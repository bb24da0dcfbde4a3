/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: 'node',
  // Types are checked by `npm run lint`; here they are only stripped.
  transform: { '^.+\\.ts$': ['ts-jest', { tsconfig: 'tsconfig.json', diagnostics: false }] },
  moduleNameMapper: {
    '^warpgraph$': '<rootDir>/lib/index.ts',
    '^warpgraph/testing$': '<rootDir>/lib/testing/index.ts',
    '^lib/(.*)$': '<rootDir>/lib/$1',
    '^warpgraph/testing/jest$': '<rootDir>/lib/testing/jest.ts',
  },
  testMatch: ['<rootDir>/__tests__/**/*.test.ts'],
  modulePathIgnorePatterns: ['<rootDir>/dist', '<rootDir>/build', '<rootDir>/.gpu'],
  globalSetup: '<rootDir>/__tests__/global_setup.ts',
  setupFiles: ['<rootDir>/__tests__/setup.ts'],
}
