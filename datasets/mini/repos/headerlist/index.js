export { formatList } from './src/format.js';
export { parseAccept, preferred } from './src/negotiate.js';
export { HeaderError, parseList } from './src/parse.js';
