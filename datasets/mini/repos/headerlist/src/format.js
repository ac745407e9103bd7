import { isToken, quote } from './quoting.js';

/** Writes what `parseList` reads; parameter values are quoted where they must be. */
export function formatList(items) {
  return items.map(formatItem).join(', ');
}

function formatItem({ value, params = {} }) {
  const parts = Object.entries(params).map(([name, content]) => `${name}=${isToken(content) ? content : quote(content)}`);
  return [value, ...parts].join('; ');
}
