/* serve.c -- tensortap serve [FOLDER]
 *
 * Sockets and HTTP are libmicrohttpd's; request.c checks what is asked, server.c answers.  One
 * thread: nothing is locked, and a training beside it keeps its processors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "serve/server.h"
#include "words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PORT = 7007,
    PORTS_TRIED = 20,
    CONNECTIONS = 512,
    SPARE = 16,               /* of them are kept free: the client that is silent longest has to go */
    SECONDS = 30,             /* that a client may be silent */
    REQUEST_BYTES = 16 << 10, /* of a connection: its headers must fit */
    ANSWER_BYTES = 256 << 20, /* of all answers on their way to slow clients */
    LATER = 5,                /* a training goes first */
    TOKEN = 16,               /* bytes */
};

static struct {
    const char *host;
    int64_t port; /* -1: not given */
} args = { .host = "127.0.0.1", .port = -1 };

/* A client that has asked for nothing, or has got its answer: a browser keeps its connections. */
typedef struct client {
    struct client *before, *after; /* in the order in which they fell silent; NULL: none */
    int fd;
    bool is_silent;
} client;

typedef struct service {
    tt_server *server;
    tt_request_rules rules;
    size_t on_their_way;      /* bytes of answers */
    client *longest, *newest; /* silent ones; NULL: none */
    unsigned clients, most;
} service;

/* ---- connections -------------------------------------------------------------------- */

static void set_silent(service *of, client *c, bool is_silent)
{
    if (c->is_silent && !is_silent) {
        *(c->before != NULL ? &c->before->after : &of->longest) = c->after;
        *(c->after != NULL ? &c->after->before : &of->newest) = c->before;
    } else if (!c->is_silent && is_silent) {
        c->before = of->newest;
        c->after = NULL;
        *(of->newest != NULL ? &of->newest->after : &of->longest) = c;
        of->newest = c;
    }
    c->is_silent = is_silent;
}

/* Notes a connection that begins or ends.  Where few are left, the one that is silent longest is shut, so
 * that idle clients keep nobody out. */
static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    service *of = cls;
    client *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (c != NULL)
            set_silent(of, c, false);
        free(c);
        *context = NULL;
        of->clients--;
        return;
    }
    of->clients++;
    if (of->clients + SPARE > of->most && of->longest != NULL) {
        client *gone = of->longest;
        set_silent(of, gone, false);
        (void)shutdown(gone->fd, SHUT_RDWR);
    }
    const union MHD_ConnectionInfo *about =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = c = about != NULL ? calloc(1, sizeof *c) : NULL;
    if (c != NULL) { /* else it is never shut early */
        c->fd = about->connect_fd;
        set_silent(of, c, true);
    }
}

static client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *about =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return about != NULL ? about->socket_context : NULL;
}

/* ---- answers ------------------------------------------------------------------------ */

/* A body until it has been sent. */
typedef struct body {
    service *of;
    tt_buf bytes; /* owned */
} body;

static void free_body(void *cls)
{
    body *b = cls;
    b->of->on_their_way -= b->bytes.len;
    tt_buf_free(&b->bytes);
    free(b);
}

/* The browser is told to load nothing else, to guess no types and to keep nothing. */
static const char *const headers[][2] = {
    { "X-Content-Type-Options", "nosniff" }, { "X-Frame-Options", "DENY" },
    { "Referrer-Policy", "no-referrer" },    { "Cross-Origin-Resource-Policy", "same-origin" },
    { "Cache-Control", "no-store" },
};

static enum MHD_Result send_answer(struct MHD_Connection *to, service *of, tt_response *answer)
{
    const char *accepted = MHD_lookup_connection_value(to, MHD_HEADER_KIND, "Accept-Encoding");
    tt_buf packed = { 0 };
    bool is_packed = accepted != NULL && tt_request_takes_gzip(accepted) && answer->body.len > 1024 &&
                     tt_page_gzip(&answer->body, &packed) == TT_OK;
    if (is_packed) {
        tt_buf_free(&answer->body);
        answer->body = packed;
    }
    body *b = of->on_their_way + answer->body.len <= ANSWER_BYTES ? malloc(sizeof *b) : NULL; /* owned */
    struct MHD_Response *response = b != NULL ? MHD_create_response_from_buffer_with_free_callback_cls(
                                                    answer->body.len, answer->body.data, free_body, b)
                                              : NULL;
    if (response == NULL) { /* too much to do: the client comes back */
        free(b);
        tt_buf_free(&answer->body);
        return MHD_NO;
    }
    *b = (body){ of, answer->body }; /* they belong to the response now */
    of->on_their_way += b->bytes.len;
    answer->body = (tt_buf){ 0 };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        (void)MHD_add_response_header(response, headers[i][0], headers[i][1]);
    (void)MHD_add_response_header(response, "Content-Type", answer->type);
    if (is_packed)
        (void)MHD_add_response_header(response, "Content-Encoding", "gzip");
    if (answer->status == 405)
        (void)MHD_add_response_header(response, "Allow", "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(to, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return result;
}

/* A request until it has been answered. */
typedef struct incoming {
    bool has_begun;
    char uri[]; /* path and query as they came: libmicrohttpd takes them apart */
} incoming;

static void *begin_request(void *cls, const char *uri, struct MHD_Connection *from)
{
    client *c = client_of(from);
    if (c != NULL)
        set_silent(cls, c, false);
    size_t len = strlen(uri);
    incoming *made = malloc(sizeof *made + len + 1);
    if (made != NULL) {
        made->has_begun = false;
        memcpy(made->uri, uri, len + 1);
    }
    return made;
}

static void end_request(void *cls, struct MHD_Connection *from, void **request,
                        enum MHD_RequestTerminationCode why)
{
    client *c = client_of(from);
    if (c != NULL && why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        set_silent(cls, c, true);
    free(*request);
    *request = NULL;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *from, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **begun)
{
    service *of = cls;
    incoming *asked = *begun;
    (void)url, (void)version, (void)data;
    if (asked == NULL)
        return MHD_NO;
    /* An answer to the headers alone would end the connection: right for one who sends more than that. */
    bool is_reading = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (is_reading && *data_len == 0 && !asked->has_begun) {
        asked->has_begun = true;
        return MHD_YES;
    }
    if (is_reading && *data_len > 0)
        return MHD_NO; /* nothing is uploaded */
    *data_len = 0;
    const tt_request request = { method, asked->uri,
                                 MHD_lookup_connection_value(from, MHD_HEADER_KIND, "Host"),
                                 MHD_lookup_connection_value(from, MHD_HEADER_KIND, "Origin") };
    tt_question question;
    tt_response answer = { .status = tt_request_parse(&request, &of->rules, &question),
                           .type = "text/plain; charset=utf-8" };
    if (answer.status == 200)
        tt_server_answer(of->server, &question, &answer);
    else
        (void)tt_buf_text(&answer.body, tt_request_refusal(answer.status));
    return send_answer(from, of, &answer);
}

/* ---- the socket ----------------------------------------------------------------------- */

static struct MHD_Daemon *start(service *of, const struct addrinfo *address)
{
    struct rlimit files;
    unsigned most = CONNECTIONS;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < most + 128)
        most = files.rlim_cur > 256 ? (unsigned)files.rlim_cur - 128 : 128;
    of->most = most;
    return MHD_start_daemon(MHD_USE_AUTO | (address->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0), 0, NULL,
                            NULL, on_request, of, MHD_OPTION_SOCK_ADDR, address->ai_addr,
                            MHD_OPTION_CONNECTION_LIMIT, most, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
                            MHD_OPTION_URI_LOG_CALLBACK, begin_request, of, MHD_OPTION_NOTIFY_COMPLETED,
                            end_request, of, MHD_OPTION_NOTIFY_CONNECTION, on_connection, of,
                            MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
}

/* Listens on the port that was given, or on the first free one. */
static tt_exit listen_on(service *of, struct MHD_Daemon **out, int *port, tt_error *err)
{
    int first = args.port >= 0 ? (int)args.port : PORT, tries = args.port >= 0 ? 1 : PORTS_TRIED;
    for (int i = 0; i < tries; i++) {
        char text[16];
        struct addrinfo *found = NULL, wish = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
        (void)snprintf(text, sizeof text, "%d", first + i);
        int failed = getaddrinfo(args.host, text, &wish, &found);
        if (failed != 0)
            return tt_cmd_fail(err, TT_EXIT_USAGE, "--host %.100s: %s; give an address of this machine",
                               args.host, gai_strerror(failed));
        errno = 0;
        *out = start(of, found);
        freeaddrinfo(found);
        if (*out != NULL) {
            const union MHD_DaemonInfo *info = MHD_get_daemon_info(*out, MHD_DAEMON_INFO_BIND_PORT);
            *port = info != NULL && info->port != 0 ? info->port : first + i;
            return TT_EXIT_FINE;
        }
        if (errno != EADDRINUSE)
            break;
    }
    return tt_cmd_fail(err, TT_EXIT_FAILED, "%.100s:%d cannot be listened on: %s; choose another --port",
                       args.host, first, errno != 0 ? strerror(errno) : "no reason is known");
}

static tt_status make_token(char out[2 * TOKEN + 1], tt_error *err)
{
    unsigned char bytes[TOKEN];
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool has_read = fd >= 0 && read(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
    int failed = errno;
    if (fd >= 0)
        (void)close(fd);
    if (!has_read)
        return tt_fail(err, TT_EIO, "no random numbers for the address: %s", strerror(failed));
    for (size_t i = 0; i < TOKEN; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return TT_OK;
}

/* ---- what is printed --------------------------------------------------------------------- */

/* Inside an SSH session: how a browser at the other end gets here. */
static void print_tunnel(int port)
{
    const char *connection = getenv("SSH_CONNECTION"), *user = getenv("USER");
    char server[64] = "";
    int ssh_port = 22;
    if (connection == NULL || sscanf(connection, "%*s %*s %63s %d", server, &ssh_port) < 1)
        return;
    tt_screen_say(TT_MOOD_PLAIN, "from your own machine first: ssh -N -L %d:127.0.0.1:%d%s %s%s%s\n",
                  port, port, ssh_port != 22 ? tt_screen_text(" -p %d", ssh_port) : "",
                  user != NULL ? user : "", user != NULL ? "@" : "", server);
}

static void print_address(const service *of, const char *folder, int port, bool is_loopback)
{
    size_t runs = tt_server_run_count(of->server);
    bool is_ip6 = strchr(args.host, ':') != NULL;
    char machine[256] = "localhost";
    bool is_any = strcmp(args.host, "0.0.0.0") == 0 || strcmp(args.host, "::") == 0;
    if (is_any)
        (void)gethostname(machine, sizeof machine - 1);
    tt_screen_say(TT_MOOD_PLAIN, "%s run%s in %s; Ctrl-C ends\n", tt_screen_count((int64_t)runs),
                  runs == 1 ? "" : "s", folder);
    printf("http://%s%s%s:%d/%s/\n", is_ip6 && !is_any ? "[" : "", is_any ? machine : args.host,
           is_ip6 && !is_any ? "]" : "", port, of->rules.token);
    if (is_loopback)
        print_tunnel(port);
    else
        tt_screen_say(TT_MOOD_REMARK, "whoever has this address can read the runs, and the connection is "
                                      "not encrypted\n");
    fflush(stdout);
}

static bool is_loopback_host(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static tt_exit serve(tt_call *call)
{
    const char *folder = call->count > 0 ? call->path : ".";
    char token[2 * TOKEN + 1], machine[256] = "";
    bool is_loopback = is_loopback_host(args.host);
    service of = { 0 };
    struct MHD_Daemon *daemon = NULL;
    int port = 0;
    tt_status st = make_token(token, call->err);
    if (st == TT_OK)
        st = tt_server_open(folder, tt_overview_is_private(), &of.server, call->err);
    if (st < 0)
        return tt_cmd_exit(st, call->err);
    (void)gethostname(machine, sizeof machine - 1);
    of.rules =
        (tt_request_rules){ .token = token,
                            .host = is_loopback ? args.host
                                    : strcmp(args.host, "0.0.0.0") == 0 || strcmp(args.host, "::") == 0
                                        ? machine
                                        : args.host,
                            .takes_addresses = !is_loopback };
    (void)signal(SIGPIPE, SIG_IGN); /* a client that is gone */
    tt_exit code = listen_on(&of, &daemon, &port, call->err);
    if (code == TT_EXIT_FINE) {
        tt_screen_catch_end();
        print_address(&of, folder, port, is_loopback);
        (void)setpriority(PRIO_PROCESS, 0, LATER);
        while (!tt_screen_is_over() && MHD_run_wait(daemon, 1000) == MHD_YES)
            ;
        MHD_stop_daemon(daemon);
    }
    tt_server_close(of.server);
    return code;
}

static bool read_port(const char *text, void *to)
{
    return tt_range_count(text, to) && *(int64_t *)to < 65536;
}

static const tt_option options[] = {
    { "port", "N", "Listen on this port (default: the first free one from 7007)", .to = &args.port,
      read_port, "a number below 65536" },
    { "host", "ADDRESS", "Listen on this address (default: 127.0.0.1, for this machine alone)",
      .to = &args.host },
};

const tt_cmd tt_cmd_serve = {
    TT_CMD("serve", "[FOLDER]", "the page of every run in a folder, live"),
    .doc =
        "Serve the pages of 'tensortap report' for the runs in a folder, or for one run, to a browser.  "
        "A run that is being written is shown as it grows.  Nothing can be changed, and only who has "
        "the printed address can read.\v"
        "For example: tensortap serve runs",
    TT_OPTIONS(options),
    .most = 1,
    .extra = "name one folder",
    .run = serve,
};
