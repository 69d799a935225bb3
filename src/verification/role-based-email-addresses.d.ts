declare module 'role-based-email-addresses' {
  /** Role accounts, such as `info`, in lower case: parts before the `@` that stand for a function, not for a person. */
  const accounts: readonly string[];
  export default accounts;
}
