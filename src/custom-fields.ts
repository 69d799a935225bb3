import { validationFailed } from './errors.ts';
import { customFieldsLimits } from './schemas/wire.ts';

type CustomFields = Record<string, string | number | boolean>;

/**
 * Custom fields after a change: merged key by key, null removes one.
 * @throws validation_failed when the whole is larger than custom fields may be
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
      { path: '/custom_fields', message: `must not come to more than ${keys} keys or ${bytes} bytes of JSON` },
    ]);
  return fields;
}
