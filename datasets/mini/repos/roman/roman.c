#include "roman.h"

#include <ctype.h>

static int letter(char c)
{
    switch (toupper((unsigned char)c)) {
    case 'I': return 1;
    case 'V': return 5;
    case 'X': return 10;
    case 'L': return 50;
    case 'C': return 100;
    case 'D': return 500;
    case 'M': return 1000;
    default: return 0;
    }
}

int roman_value(const char *text)
{
    int total = 0;
    for (const char *c = text; *c; c++) {
        int value = letter(*c);
        if (value == 0)
            return 0;
        total += value;
    }
    return total;
}
