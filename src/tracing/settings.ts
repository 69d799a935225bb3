import { validateHeaderName, validateHeaderValue } from 'node:http';

/*
 * The OpenTelemetry libraries silently ignore settings that they cannot use. These functions find them, so that the
 * service can refuse to start.
 */

/**
 * Returns whether a text is an HTTP header in the form `name=value`, percent-encoded. The value must not be empty, and a
 * semicolon in it must be encoded: the library drops such a header or the rest of its value.
 */
export function isHeader(text: string): boolean {
  const [, name, value] = /^([^=;]+)=([^;]+)$/.exec(text) ?? [];
  try {
    validateHeaderName(decodeURIComponent(name!.trim()));
    validateHeaderValue('value', decodeURIComponent(value!.trim()));
    return value!.trim() !== '';
  } catch {
    return false;
  }
}

/** The longest name or value of a resource attribute that the library accepts (UTF-16 units). */
const maxAttributeLength = 255;

/** Returns whether a text is a resource attribute in the form `name=value`, percent-encoded, or empty. */
export function isResourceAttribute(text: string): boolean {
  if (text === '') return true;
  const parts = text.split('=');
  try {
    const [name, value] = parts.map((part) => decodeURIComponent(part.trim()));
    return parts.length === 2 && name !== '' && [name!, value!].every(({ length }) => length <= maxAttributeLength);
  } catch {
    return false;
  }
}

/** Returns whether a text is a number from 0 to 1. */
export const isRatio = (text: string): boolean => text.trim() !== '' && Number(text) >= 0 && Number(text) <= 1;
