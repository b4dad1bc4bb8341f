/* replay.c -- feeds the files of a folder to a fuzz target, as a plain test.
 *
 * Exists so that what fuzzing once found stays found, with any compiler.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>

static void feed(const char *path)
{
    FILE *file = fopen(path, "rbe");
    MUST(file != NULL);
    MUST(fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    MUST(size >= 0 && fseek(file, 0, SEEK_SET) == 0);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1); /* malloc(0) may be NULL */
    MUST(data != NULL && fread(data, 1, (size_t)size, file) == (size_t)size);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

int main(int argc, char **argv)
{
    MUST(argc == 2);
    struct dirent **names = NULL;
    int count = scandir(argv[1], &names, NULL, alphasort);
    MUST(count > 2); /* an empty corpus tests nothing */
    int fed = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
        MUST(n > 0 && (size_t)n < sizeof path);
        if (names[i]->d_name[0] != '.') {
            (void)printf("%s\n", path); /* the last one printed is the one that failed */
            (void)fflush(stdout);
            feed(path);
            fed++;
        }
        free(names[i]);
    }
    free(names);
    MUST(fed > 0);
    return 0;
}
