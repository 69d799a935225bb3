declare module 'role-based-email-addresses' {
  /** Local parts of addresses that stand for a function, not for a person, such as `info`. In lower case. */
  const accounts: readonly string[];
  export default accounts;
}
