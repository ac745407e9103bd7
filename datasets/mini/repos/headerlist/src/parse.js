import { isToken, unquote } from './quoting.js';

export class HeaderError extends Error {
  constructor(message) {
    super(message);
    this.name = 'HeaderError';
  }
}

/** Reads a header into a list of `{ value, params }`; empty elements are skipped. */
export function parseList(header) {
  return split(header, ',').map(parseItem);
}

function parseItem(text) {
  const [value, ...rest] = split(text, ';');
  const params = {};
  for (const part of rest) {
    const [name, content] = parseParam(part);
    // The first one counts, so that nobody can smuggle in a second filename.
    if (!Object.hasOwn(params, name)) {
      params[name] = content;
    }
  }
  return { value, params };
}

function parseParam(text) {
  const equals = text.indexOf('=');
  const name = (equals < 0 ? text : text.slice(0, equals)).trim().toLowerCase();
  if (!isToken(name)) {
    throw new HeaderError(`bad parameter name in ${JSON.stringify(text)}`);
  }
  return [name, equals < 0 ? '' : unquote(text.slice(equals + 1).trim())];
}

function split(text, separator) {
  return text
    .split(separator)
    .map((part) => part.trim())
    .filter((part) => part !== '');
}
