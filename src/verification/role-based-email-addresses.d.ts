declare module 'role-based-email-addresses' {
  /** Local parts, in lower case. */
  const accounts: readonly string[];
  export default accounts;
}
