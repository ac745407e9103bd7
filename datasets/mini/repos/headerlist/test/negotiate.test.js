import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { parseAccept, preferred } from '../index.js';

describe('parseAccept', () => {
  it('sorts by quality and keeps ties in order', () => {
    const ranges = parseAccept('text/*;q=0.3, Text/HTML, application/json, */*;q=0.5').map(({ range }) => range);
    assert.deepEqual(ranges, ['text/html', 'application/json', '*/*', 'text/*']);
  });
});

describe('preferred', () => {
  it('takes the most specific range of a type', () => {
    assert.equal(preferred('text/*;q=0.9, text/plain;q=0.1, */*;q=0.5', ['text/plain', 'image/png']), 'image/png');
  });

  it('gives null when nothing is acceptable', () => {
    assert.equal(preferred('text/html, image/png;q=0', ['image/png', 'text/plain']), null);
  });
});
