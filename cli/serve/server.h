/* server.h -- answers questions about the runs of a folder.
 *
 * Knows nothing of sockets.  Not thread-safe.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_SERVER_H
#define TT_CLI_SERVER_H

#include "runs/list.h"
#include "serve/request.h"

typedef struct tt_server tt_server;

typedef struct tt_response {
    int status;       /* of HTTP */
    const char *type; /* of the body */
    tt_buf body;      /* owned by the caller */
} tt_response;

/* A folder that holds runs, or is one. */
tt_status tt_server_open(const char *folder, bool is_private, tt_server **out, tt_error *err);
void tt_server_close(tt_server *server);
size_t tt_server_run_count(const tt_server *server);
void tt_server_answer(tt_server *server, const tt_question *question, tt_response *out);

#endif
