/* request.h -- what a browser asks the server for, checked.
 *
 * Knows nothing of sockets and of runs, so that a fuzz target can try any text.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_REQUEST_H
#define TT_CLI_REQUEST_H

#include "tensortap_tools.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_REQUEST_LONGEST = 8 << 10 }; /* of a path with its query */

/* A request as it came; NULL: it has no such header. */
typedef struct tt_request {
    const char *method, *uri, *host, *origin;
} tt_request;

/* Which requests are answered. */
typedef struct tt_request_rules {
    const char *token;    /* the first part of every path */
    const char *host;     /* a name besides those of loopback; NULL: none */
    bool takes_addresses; /* any address in digits is a name of this machine */
} tt_request_rules;

typedef enum tt_asked {
    TT_ASKED_PAGE,  /* of a run, of several, or of the list of runs */
    TT_ASKED_RUNS,  /* the list, as JSON */
    TT_ASKED_BLOCK, /* a text of a page: tt_page_block */
    TT_ASKED_DATA,  /* columns of a page: tt_page_data */
} tt_asked;

typedef struct tt_question {
    tt_asked asked;
    const char *runs
        [TT_PAGE_RUNS_MOST]; /* names; "": none.  These and the next are texts in `text` or constants */
    const char *name, *have, *add;
    uint64_t since;
    char text[TT_REQUEST_LONGEST];
} tt_question;

/* Returns the status of HTTP: 200, or why the request is refused. */
int tt_request_parse(const tt_request *request, const tt_request_rules *rules, tt_question *out);
const char *tt_request_refusal(int status); /* for people */
/* Does a header Accept-Encoding take gzip?  "gzip;q=0" does not. */
bool tt_request_takes_gzip(const char *accepted);

#endif
