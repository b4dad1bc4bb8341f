/* upload.c -- tensortap upload RUN URL, tensortap download URL [FOLDER]
 *
 * Only the front: the work is done by tensortap.commands.upload and download.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <stdlib.h>

static void check_upload(const tt_call *call)
{
    if (call->count == 1 && getenv("TENSORTAP_UPLOAD_URL") == NULL)
        tt_cmd_refuse(call->cmd, "say where to: tensortap upload %s URL", call->words[0]);
    if (call->count == 2 && !tt_python_is_url(call->words[1]))
        tt_cmd_refuse(call->cmd, "'%s' is no URL like s3://bucket/runs", call->words[1]);
}

static void check_download(const tt_call *call)
{
    if (!tt_python_is_url(call->words[0]))
        tt_cmd_refuse(call->cmd, "'%s' is no URL like s3://bucket/runs/today", call->words[0]);
}

static const tt_option options[] = {
    { .name = "follow", NULL, "Go on while the run is written, and until all of it is there" },
};

const tt_cmd tt_cmd_upload = {
    TT_CMD("upload", "RUN URL", "copy a run into an object store"),
    .doc = "Copy a run into a folder of an object store, also while it is written.  What is there "
           "already is not sent "
           "again.\v"
           "For example: tensortap upload runs/today s3://team/runs --follow",
    TT_OPTIONS(options),
    .least = 1,
    .most = 2,
    .missing = "name a run and a URL",
    .extra = "name one run and one URL",
    .check = check_upload,
    .run = tt_python_run,
};

const tt_cmd tt_cmd_download = {
    TT_CMD("download", "URL [FOLDER]", "copy runs out of an object store"),
    .doc =
        "Copy a run, or a folder of runs, out of an object store (default: into a folder of its name).\v"
        "For example: tensortap download s3://team/runs/today",
    .least = 1,
    .most = 2,
    .missing = "name a URL",
    .extra = "name one URL and one folder",
    .check = check_download,
    .run = tt_python_run,
};
