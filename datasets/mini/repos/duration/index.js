const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/** A number of whole seconds as text: "1h 5m". */
export function format(seconds) {
  if (!Number.isInteger(seconds)) {
    throw new TypeError(`not a whole number of seconds: ${seconds}`);
  }
  const parts = [];
  let rest = seconds;
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    if (count > 0) {
      parts.push(`${count}${unit}`);
      rest -= count * size;
    }
  }
  return parts.join(" ") || "0s";
}
