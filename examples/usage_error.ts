/** Something the user can mend: told in one line, without a stack. */
export class UsageError extends Error {}
