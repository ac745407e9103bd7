import { parseList } from './parse.js';

/** The media ranges of an Accept header, best first; ranges of equal quality keep their order. */
export function parseAccept(header) {
  return parseList(header)
    .map(({ value, params }) => ({ range: value.toLowerCase(), quality: quality(params.q), params }))
    .sort((a, b) => b.quality - a.quality);
}

/** The one of `available` that the client likes best, or null if it takes none of them. */
export function preferred(header, available) {
  const ranges = parseAccept(header);
  let best = null;
  let bestQuality = 0;
  for (const type of available) {
    const found = mostSpecific(ranges, type.toLowerCase());
    if (found && found.quality > bestQuality) {
      best = type;
      bestQuality = found.quality;
    }
  }
  return best;
}

function mostSpecific(ranges, type) {
  const [main] = type.split('/');
  for (const candidate of [type, `${main}/*`, '*/*']) {
    const found = ranges.find(({ range }) => range === candidate);
    if (found) {
      return found;
    }
  }
  return null;
}

function quality(text) {
  if (text === undefined) {
    return 1;
  }
  const value = Number(text);
  return Number.isFinite(value) ? Math.min(1, Math.max(0, value)) : 0;
}
