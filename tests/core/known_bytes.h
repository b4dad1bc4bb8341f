/* known_bytes.h -- a fresh folder for each test, and files in it whose bytes are known.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_TEST_KNOWN_BYTES_H
#define TT_TEST_KNOWN_BYTES_H

#include "tensortap.h"

enum { KNOWN_BYTES = 300000 };

extern char known_bytes[KNOWN_BYTES]; /* set by the fixture */

/* The fixture: a folder that is there, and is gone afterwards with what is in it. */
int known_folder_make(void **state);
int known_folder_remove(void **state);
const char *known_folder(void);
/* "folder/i"; good until the thread asks for another. */
const char *known_path(int i);

/* The first so many of the bytes. */
tt_tensor known_tensor(int64_t count);
void assert_known_file(const char *path, size_t count);
/* Files in the folder whose name begins so. */
int count_known_files(const char *beginning);

/* A test: a process that saves files over and over is killed, again and again. */
void killed_at_any_moment_every_file_is_whole(void **state);

#endif
