/* fuzz_glob.c -- any pattern against any name: an answer, soon.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "tensortap_tools.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    char *text = malloc(size + 2);
    if (text == NULL)
        return 0;
    memcpy(text, data, size); /* the pattern, a NUL, the name */
    text[size] = text[size + 1] = '\0';
    const char *name = text + strlen(text) + 1;
    if (name > text + size)
        name = text + size;
    bool plain = strpbrk(text, "*?,") == NULL;
    MUST(!plain || tt_glob_match(text, name) == (strcmp(text, name) == 0));
    MUST(tt_glob_match("*", name));
    free(text);
    return 0;
}
