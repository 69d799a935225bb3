import { validateHeaderName, validateHeaderValue } from 'node:http';

/*
 * The OpenTelemetry libraries silently ignore settings that they cannot use. These functions find them, so that the
 * service can refuse to start.
 */

/**
 * True for a header `name=value`, percent-encoded, semicolons too. The OpenTelemetry library drops a header without a
 * value, and the part of a value after a semicolon.
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

/** Maximum length of a resource attribute's name or value in the OpenTelemetry library (UTF-16 units). */
const maxAttributeLength = 255;

/** Returns true for a resource attribute `name=value`, percent-encoded, and for an empty text. */
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

export const isRatio = (text: string): boolean => text.trim() !== '' && Number(text) >= 0 && Number(text) <= 1;
