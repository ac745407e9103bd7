#ifndef ROMAN_H
#define ROMAN_H

/* The value of a Roman numeral, or 0 if the text is none. */
int roman_value(const char *text);

#endif
