#ifndef EXPAND_H
#define EXPAND_H

/* A copy of text, to be freed, with spaces up to the next tab stop for each tab; NULL where memory is short. */
char *expand_tabs(const char *text, int width);

#endif
