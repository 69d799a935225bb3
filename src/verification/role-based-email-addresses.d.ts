declare module 'role-based-email-addresses' {
  /**
   * List of role accounts, such as `info`, in lower case. A role account is the part of an e-mail address before the
   * `@` that stands for a function, not for a person.
   */
  const accounts: readonly string[];
  export default accounts;
}
