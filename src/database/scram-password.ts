/**
 * Normalises a password with SASLprep (RFC 4013) for SCRAM, like PostgreSQL and psql. Unchanged if SASLprep rejects it.
 * Other methods need the password as it is.
 *
 * Differs from PostgreSQL for characters that came after Unicode 3.2 and have a compatible older form, such as `ᵃ`:
 * PostgreSQL leaves such a password unchanged.
 */
export async function scramPassword(password: string): Promise<string> {
  if (isAscii.test(password)) return password;
  const { saslprep } = await import('@mongodb-js/saslprep'); // its tables take a while to load
  try {
    return saslprep(password) || password;
  } catch {
    return password;
  }
}

// eslint-disable-next-line no-control-regex -- PostgreSQL leaves these passwords unchanged too
const isAscii = /^[\u0000-\u007f]*$/;
