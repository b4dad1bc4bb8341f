/* request.c -- what a browser asks the server for, checked.
 *
 * A page of another site may send requests to this machine, or make its own name stand for it (DNS
 * rebinding).  So Host and Origin must name this machine, and every path begins with a token that
 * only the printed address has.  Names of runs are looked up in a list, never opened as paths.
 * SPDX-License-Identifier: Apache-2.0 */
#include "serve/request.h"
#include "words.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Takes as long for any guess of the same length. */
static bool is_token(const char *text, size_t len, const char *token)
{
    unsigned differs = 0;
    if (len != strlen(token))
        return false;
    for (size_t i = 0; i < len; i++)
        differs |= (unsigned char)text[i] ^ (unsigned char)token[i];
    return differs == 0;
}

static bool is_address(const char *text)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* "localhost:7007", "127.0.0.1", "[::1]:80"; the port may be that of a tunnel. */
static bool is_our_host(const char *header, const tt_request_rules *rules)
{
    char host[256];
    bool is_bracketed = *header == '[';
    size_t len = is_bracketed ? strcspn(header + 1, "]") : strcspn(header, ":");
    const char *rest = header + len + (is_bracketed ? 2 : 0);
    if (len >= sizeof host || (is_bracketed && header[len + 1] != ']'))
        return false;
    if (*rest != '\0' && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1)))
        return false;
    memcpy(host, header + is_bracketed, len);
    host[len] = '\0';
    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0)
        return true;
    return (rules->host != NULL && strcasecmp(host, rules->host) == 0) ||
           (rules->takes_addresses && is_address(host));
}

/* A page of ours has the origin that its host names. */
static bool is_our_origin(const char *origin, const char *host)
{
    static const char *const schemes[] = { "http://", "https://" };
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(schemes[i]);
        if (strncmp(origin, schemes[i], len) == 0 && strcasecmp(origin + len, host) == 0)
            return true;
    }
    return false;
}

/* Decodes "a%2Fb+c" in place, up to its end or '&'; returns where the rest begins, NULL: it is no
 * text. */
static char *decode(char *text)
{
    char *to = text;
    for (; *text != '\0' && *text != '&'; text++) {
        if (*text != '%') {
            *to++ = *text == '+' ? ' ' : *text;
            continue;
        }
        if (!isxdigit((unsigned char)text[1]) || !isxdigit((unsigned char)text[2]))
            return NULL;
        char byte = (char)strtol((const char[]){ text[1], text[2], '\0' }, NULL, 16);
        if (byte == '\0')
            return NULL;
        *to++ = byte;
        text += 2;
    }
    char *rest = *text == '&' ? text + 1 : text;
    *to = '\0';
    return rest;
}

static bool parse_query(char *query, tt_question *out)
{
    const char *since = "0";
    const struct {
        const char *name;
        const char **to;
    } known[] = { { "of=", &out->runs[0] }, { "name=", &out->name }, { "have=", &out->have },
                  { "add=", &out->add },    { "since=", &since },    { "with=", NULL } };
    size_t others = 0;
    while (*query != '\0') {
        size_t i = 0, count = sizeof known / sizeof *known;
        while (i < count && strncmp(query, known[i].name, strlen(known[i].name)) != 0)
            i++;
        if (i == count)
            return false;
        query += strlen(known[i].name);
        if (known[i].to == NULL && ++others == TT_PAGE_RUNS_MOST)
            return false;
        *(known[i].to != NULL ? known[i].to : &out->runs[others]) = query;
        query = decode(query);
        if (query == NULL)
            return false;
    }
    return tt_range_count(since, &out->since);
}

int tt_request_parse(const tt_request *request, const tt_request_rules *rules, tt_question *out)
{
    static const char *const paths[] = { [TT_ASKED_PAGE] = "",
                                         [TT_ASKED_RUNS] = "runs",
                                         [TT_ASKED_BLOCK] = "block",
                                         [TT_ASKED_DATA] = "data" };
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
        return 405;
    if (request->host == NULL || !is_our_host(request->host, rules))
        return 421;
    if (request->origin != NULL && !is_our_origin(request->origin, request->host))
        return 403;
    size_t len = strlen(request->uri);
    if (len >= TT_REQUEST_LONGEST)
        return 414;
    size_t first = request->uri[0] == '/' ? 1 : 0, token = strcspn(request->uri + first, "/?");
    if (first == 0 || !is_token(request->uri + first, token, rules->token))
        return 401;
    if (request->uri[first + token] != '/')
        return 404;
    memcpy(out->text, request->uri + first + token + 1, len - first - token);
    char *query = strchr(out->text, '?');
    out->name = out->have = out->add = "";
    for (size_t i = 0; i < TT_PAGE_RUNS_MOST; i++)
        out->runs[i] = "";
    out->since = 0;
    if (query != NULL)
        *query++ = '\0';
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(out->text, paths[i]) == 0) {
            out->asked = (tt_asked)i;
            return query == NULL || parse_query(query, out) ? 200 : 400;
        }
    return 404;
}

const char *tt_request_refusal(int status)
{
    static const struct {
        int status;
        const char *text;
    } refusals[] = {
        { 400, "This request was not understood.\n" },
        { 401, "Open the address that 'tensortap serve' printed: it has a token in it.\n" },
        { 403, "A page of another site may not read runs.\n" },
        { 404, "There is nothing here.\n" },
        { 405, "Runs can only be read: GET and HEAD.\n" },
        { 414, "This address is too long.\n" },
        { 421, "The server was asked for by a name that is not its own; name it with --host.\n" },
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i].status == status)
            return refusals[i].text;
    return "The server has too much to do; try again.\n";
}

bool tt_request_takes_gzip(const char *accepted)
{
    bool takes_any = false;
    while (*accepted != '\0') {
        accepted += strspn(accepted, " \t,");
        size_t len = strcspn(accepted, ",");
        size_t name = strcspn(accepted, " \t,;");
        const char *weight = memchr(accepted, ';', len);
        weight = weight != NULL ? weight + 1 + strspn(weight + 1, " \t") : NULL;
        bool is_taken =
            weight == NULL || strncasecmp(weight, "q=", 2) != 0 || strtod(weight + 2, NULL) > 0;
        if (name == 4 && strncasecmp(accepted, "gzip", name) == 0)
            return is_taken;
        takes_any |= name == 1 && *accepted == '*' && is_taken;
        accepted += len;
    }
    return takes_any;
}
