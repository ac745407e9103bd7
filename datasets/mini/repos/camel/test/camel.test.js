const assert = require("node:assert/strict");
const { test } = require("node:test");
const { camel } = require("../camel.js");

test("words", () => assert.equal(camel("some long name"), "someLongName"));
test("empty", () => assert.equal(camel("  "), ""));
test("case within a word", () => assert.equal(camel("XML reader"), "xMLReader"));
