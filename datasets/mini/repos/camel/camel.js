/** "some long name" to "someLongName". */
exports.camel = function camel(text) {
  const words = text.split(" ").filter((word) => word !== "");
  return words
    .map((word, index) => (index === 0 ? word[0].toLowerCase() : word[0].toUpperCase()) + word.slice(1))
    .join("");
};
