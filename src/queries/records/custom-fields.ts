import { validationFailed } from '../../errors.ts';
import { customFieldsLimits } from '../../schemas/base/wire.ts';

type CustomFields = Record<string, string | number | boolean>;

/**
 * Merges a patch into the custom fields of a record, key by key. A null removes the key.
 * @throws DomainError `validation_failed` when the result exceeds the limits of custom fields
 */
export function mergeCustomFields(
  current: CustomFields,
  patch: Record<string, string | number | boolean | null>,
): CustomFields {
  const merged = Object.entries({ ...current, ...patch }).filter(
    (entry): entry is [string, string | number | boolean] => entry[1] !== null,
  );
  const fields = Object.fromEntries(merged);
  const { keys, bytes } = customFieldsLimits;
  if (merged.length > keys || Buffer.byteLength(JSON.stringify(fields)) > bytes)
    throw validationFailed([
      { path: '/custom_fields', message: `must not have more than ${keys} keys or ${bytes} bytes of JSON` },
    ]);
  return fields;
}
