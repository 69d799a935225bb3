/**
 * The hash of a user who has not set a password yet. Logins of unknown addresses are compared with it, so that they take as
 * long. No password matches it.
 */
export const noPassword =
  '$argon2id$v=19$m=19456,t=2,p=1$DCK8l8LEJDhMKBjKCcIJCQ$+u6E7aaSoOyZjPaYNlnHmDZ5AhwDjTtk6RnzsWu0ljs';
