/* fuzz_request.c -- any text as a request to `tensortap serve`: method, address, Host and Origin,
 * one a line; "-": no such header.
 *
 * What is answered begins with the token and names this machine; what it asks for is then asked of
 * the page of a small run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../../cli/serve/request.h"
#include "fuzz.h"
#include "tensortap_tools.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

static const tt_request_rules rules = { .token = "secret", .host = "gpu.example" };

/* The page of a run with two sites, made once. */
static tt_page *page_of_small_run(void)
{
    static tt_page *page;
    static tt_page_run about = { .path = "small", .state = "finished" };
    char folder[] = "/tmp/tt_fuzz_XXXXXX", file[64];
    tt_recorder *rec;
    int32_t loss, fc;
    if (page != NULL)
        return page;
    MUST(mkdtemp(folder) != NULL && tt_recorder_open(folder, NULL, &rec, NULL) == TT_OK);
    MUST(tt_recorder_site(rec, "loss", &loss, NULL) == TT_OK);
    MUST(tt_recorder_site(rec, "activation/fc", &fc, NULL) == TT_OK);
    for (int64_t step = 0; step < 20; step++) {
        const tt_stats s = { .count = 4, .max = 1, .absmax = 1, .sumsq = 4, .dtype = TT_F32 };
        MUST(tt_recorder_scalar(rec, loss, step, 1) == TT_OK);
        MUST(tt_recorder_add(rec, &(tt_event){ .site = fc, .step = step, .stats = &s }) == TT_OK);
    }
    MUST(tt_recorder_close(rec, 10, NULL) == TT_OK && tt_run_open(folder, &about.run, NULL) == TT_OK);
    MUST(tt_page_open(&about, 1, false, &page, NULL) == TT_OK);
    (void)snprintf(file, sizeof file, "%s/rank0.tap", folder);
    (void)unlink(file);
    (void)rmdir(folder);
    return page;
}

static bool is_inside(const tt_question *q, const char *text)
{
    return *text == '\0' || (text >= q->text && text + strlen(text) < q->text + sizeof q->text);
}

static void check_answer(const tt_request *request, const tt_question *q)
{
    tt_buf out = { 0 };
    tt_error err = { "" };
    MUST(strncmp(request->uri, "/secret/", 8) == 0);
    MUST(strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0);
    MUST(strncasecmp(request->host, "localhost", 9) == 0 || strncmp(request->host, "127.0.0.1", 9) == 0 ||
         strncmp(request->host, "[::1]", 5) == 0 || strncasecmp(request->host, "gpu.example", 11) == 0);
    MUST(request->origin == NULL || strstr(request->origin, "://") != NULL);
    for (size_t i = 0; i < TT_PAGE_RUNS_MOST; i++)
        MUST(is_inside(q, q->runs[i]));
    MUST(is_inside(q, q->name));
    MUST(is_inside(q, q->have) && is_inside(q, q->add));
    tt_page *page = page_of_small_run();
    tt_status st = q->asked == TT_ASKED_BLOCK  ? tt_page_block(page, q->name, &out, &err)
                   : q->asked == TT_ASKED_DATA ? tt_page_data(page, q->since, q->have, q->add, &out, &err)
                                               : TT_OK;
    MUST(st == TT_OK || (st == TT_EINVAL && err.text[0] != '\0'));
    tt_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *lines[4], *at = text;
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < 4; i++) {
        char *end = strchr(at, '\n');
        lines[i] = at;
        at = end != NULL ? end + 1 : at + strlen(at);
        if (end != NULL)
            *end = '\0';
    }
    const tt_request request = { lines[0], lines[1], strcmp(lines[2], "-") == 0 ? NULL : lines[2],
                                 strcmp(lines[3], "-") == 0 || *lines[3] == '\0' ? NULL : lines[3] };
    tt_question question;
    int status = tt_request_parse(&request, &rules, &question);
    MUST(strlen(tt_request_refusal(status)) > 0);
    if (status == 200)
        check_answer(&request, &question);
    free(text);
    return 0;
}
