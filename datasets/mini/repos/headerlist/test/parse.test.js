import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { formatList, HeaderError, parseList } from '../index.js';

describe('parseList', () => {
  it('reads values and parameters', () => {
    assert.deepEqual(parseList('text/html;level=1, text/*; Q=0.5'), [
      { value: 'text/html', params: { level: '1' } },
      { value: 'text/*', params: { q: '0.5' } },
    ]);
  });

  it('skips empty elements', () => {
    assert.deepEqual(parseList(' , gzip,, br ,'), [
      { value: 'gzip', params: {} },
      { value: 'br', params: {} },
    ]);
  });

  it('unquotes parameter values', () => {
    const [item] = parseList('attachment; filename="annual report.pdf"');
    assert.equal(item.params.filename, 'annual report.pdf');
  });

  it('keeps the first of two equal parameters', () => {
    assert.deepEqual(parseList('a;x=1;X=2')[0].params, { x: '1' });
  });

  it('refuses bad parameter names', () => {
    assert.throws(() => parseList('a;b c=1'), HeaderError);
  });
});

describe('formatList', () => {
  it('quotes where it must', () => {
    const items = [{ value: 'attachment', params: { filename: 'my "best" shot.png', size: '12' } }, { value: 'x' }];
    assert.equal(formatList(items), 'attachment; filename="my \\"best\\" shot.png"; size=12, x');
  });
});
