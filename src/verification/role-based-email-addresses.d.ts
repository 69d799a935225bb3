declare module 'role-based-email-addresses' {
  /** The names of role accounts (the part of the address before the `@`), such as `info`, in lower case. */
  const accounts: readonly string[];
  export default accounts;
}
