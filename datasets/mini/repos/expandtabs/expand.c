#include "expand.h"

#include <stdlib.h>
#include <string.h>

char *expand_tabs(const char *text, int width)
{
    char *result = malloc(strlen(text) * width + 1);
    char *to = result;
    if (result == NULL)
        return NULL;
    for (; *text != '\0'; text++) {
        if (*text != '\t') {
            *to++ = *text;
            continue;
        }
        for (int i = 0; i < width; i++)
            *to++ = ' ';
    }
    *to = '\0';
    return result;
}
