#include "../roman.h"

#include <stdio.h>
#include <string.h>

static int check(const char *text, int wanted)
{
    int value = roman_value(text);
    if (value != wanted)
        printf("%s: wanted %d, got %d\n", text, wanted, value);
    return value != wanted;
}

int main(int count, char **names)
{
    if (count != 2)
        return 2;
    if (strcmp(names[1], "sums") == 0)
        return check("III", 3) | check("XVI", 16) | check("MDCLXVI", 1666);
    if (strcmp(names[1], "lower") == 0)
        return check("viii", 8);
    if (strcmp(names[1], "wrong") == 0)
        return check("XZ", 0) | check("", 0);
    return 2;
}
