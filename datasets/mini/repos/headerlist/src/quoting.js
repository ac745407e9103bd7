// Quoted strings (RFC 9110, section 5.6.4).

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Whether a parameter value may be written without quotes. */
export function isToken(text) {
  return TOKEN.test(text);
}

export function quote(text) {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** The content of a quoted string; any other text is returned as it is. */
export function unquote(text) {
  if (text.length < 2 || !text.startsWith('"') || !text.endsWith('"')) {
    return text;
  }
  return text.slice(1, -1).replace(/\\(.)/g, '$1');
}
