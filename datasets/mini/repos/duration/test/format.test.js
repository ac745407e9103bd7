import assert from "node:assert/strict";
import { test } from "node:test";

import { format } from "../index.js";

test("units", () => {
  assert.equal(format(42), "42s");
  assert.equal(format(3900), "1h 5m");
  assert.equal(format(2 * 86400), "2d");
});

test("zero", () => {
  assert.equal(format(0), "0s");
});

test("only whole seconds", () => {
  assert.throws(() => format(1.5), TypeError);
});
