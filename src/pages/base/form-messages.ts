import type { Format } from '../../schemas/base/formats.ts';
import type { MessageFor } from '../../validation/validator.ts';
import { counted } from './html.ts';

/** Says what is wrong with a value of a form, in words for people. */
export const formMessage: MessageFor = ({ keyword, params, message = 'is not valid' }) => {
  const limit = Number(params['limit']);
  switch (keyword) {
    case 'required':
    case 'dependentRequired':
      return 'is missing';
    case 'minLength':
      return limit === 1 ? 'must not be empty' : `must have at least ${counted(limit, 'character')}`;
    case 'maxLength':
      return `can have at most ${counted(limit, 'character')}`;
    case 'minItems':
      return limit === 1 ? 'choose at least one' : `choose at least ${limit}`;
    case 'maxItems':
      return `can have at most ${counted(limit, 'value')}`;
    case 'maxProperties':
      return `can have at most ${counted(limit, 'field')}`;
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    case 'type':
      return types[String(params['type']).split(',')[0] as keyof typeof types] ?? 'is not valid';
    case 'enum':
      return 'choose one of the choices';
    case 'format':
      return formats[params['format'] as Format];
    default:
      return message;
  }
};

const types = {
  number: 'must be a number, such as 1249.50',
  integer: 'must be a whole number',
  string: 'must be a text',
};

const formats: Record<Format, string> = {
  uuid: 'choose one of the choices',
  email: 'must be an e-mail address',
  'date-time': 'choose a date',
  'feed-start': 'choose a date and a time',
  domain: 'must be a domain, such as example.com, or a web address',
  name: 'must have 1 to 255 characters',
  'key-name': 'must have 1 to 120 characters',
  country: 'choose a country',
  currency: 'must be the code of a currency, such as EUR',
};
