declare module 'role-based-email-addresses' {
  /** Local parts of role accounts such as `info`, in lower case. */
  const accounts: readonly string[];
  export default accounts;
}
