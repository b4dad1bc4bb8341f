/* health.c -- tensortap health RUN [--select ID,...] [--format text|json|sarif|junit]
 * SPDX-License-Identifier: Apache-2.0 */
#include "output/findings.h"
#include "output/json.h"
#include "runs/overview.h"
#include "words.h"

#include <stdio.h>
#include <string.h>

static struct {
    tt_health_options options;
    char *allow; /* all of them, with commas */
    const char *baseline, *format, *explain;
    int64_t rank; /* main.c opens it */
    bool is_strict;
} args;

/* ---- text ------------------------------------------------------------------------- */

/* The fate of the run, what the rules found, and what else is to be said. */
static void print_text(const tt_call *call, const tt_findings *findings)
{
    const tt_answers *notes = &findings->notes;
    tt_screen_say(TT_MOOD_PLAIN, "%s  ", call->path);
    (void)tt_findings_print_verdict(findings, strlen(call->path) + 2);
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i].kind == TT_ANSWER_FAULT)
            (void)tt_answer_print(&notes->items[i], TT_EXTENT_ALL);
    for (size_t i = 0; i < findings->count; i++)
        (void)tt_answer_print(&findings->items[i], TT_EXTENT_ALL);
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i].kind != TT_ANSWER_FAULT && notes->items[i].severity != TT_SEVERITY_FINE)
            (void)tt_answer_print(&notes->items[i], TT_EXTENT_ALL);
}

static tt_status print_json(const tt_call *call, const tt_findings *findings)
{
    tt_json *json = tt_json_begin_schema(NULL);
    tt_json_text(json, "run", call->path);
    tt_findings_json(json, findings);
    return tt_json_end(TT_OK);
}

/* ---- SARIF 2.1.0 -------------------------------------------------------------------- */

/* Appends a path as a URI reference. */
static void append_uri(const char *path, tt_buf *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    for (const char *at = path; *at != '\0'; at++)
        if (strchr(plain, *at) != NULL)
            (void)tt_buf_append(out, at, 1);
        else
            (void)tt_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*at);
}

static void put_message(tt_json *json, const char *name, const char *text)
{
    tt_json_open(json, name, '{');
    tt_json_text(json, "text", text);
    tt_json_close(json);
}

static void put_sarif_rules(tt_json *json)
{
    tt_json_open(json, "rules", '[');
    for (size_t i = 0; tt_rule_at(i) != NULL; i++) {
        const tt_rule *rule = tt_rule_at(i);
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "id", rule->id);
        put_message(json, "shortDescription", rule->summary);
        put_message(json, "help", rule->remedy);
        tt_json_open(json, "defaultConfiguration", '{');
        tt_json_text(json, "level", tt_severity_text(rule->severity));
        tt_json_close(json);
        tt_json_close(json);
    }
    tt_json_close(json);
}

static void put_sarif_result(tt_json *json, const tt_answer *found, const char *uri)
{
    tt_json_open(json, NULL, '{');
    tt_json_text(json, "ruleId", found->rule);
    tt_json_text(json, "level", tt_severity_text(found->severity));
    tt_buf text = { 0 };
    (void)tt_buf_printf(&text, "%s. What to do: %s.", found->sentence, found->remedy);
    put_message(json, "message", text.data);
    tt_buf_free(&text);
    tt_json_open(json, "locations", '[');
    tt_json_open(json, NULL, '{');
    tt_json_open(json, "physicalLocation", '{');
    tt_json_open(json, "artifactLocation", '{');
    tt_json_text(json, "uri", uri);
    tt_json_close(json);
    tt_json_close(json);
    tt_json_open(json, "logicalLocations", '[');
    for (size_t i = 0; i < found->site_count; i++) {
        tt_json_open(json, NULL, '{');
        tt_json_text(json, "fullyQualifiedName", found->names[i]);
        tt_json_close(json);
    }
    tt_json_close(json);
    tt_json_close(json);
    tt_json_close(json);
    tt_json_close(json);
}

static tt_status print_sarif(const tt_call *call, const tt_findings *findings)
{
    tt_json *json = tt_json_begin();
    tt_buf uri = { 0 };
    append_uri(call->path, &uri);
    tt_json_text(json, "version", "2.1.0");
    tt_json_text(json, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    tt_json_open(json, "runs", '[');
    tt_json_open(json, NULL, '{');
    tt_json_open(json, "tool", '{');
    tt_json_open(json, "driver", '{');
    tt_json_text(json, "name", "tensortap");
    tt_json_text(json, "version", TT_VERSION);
    put_sarif_rules(json);
    tt_json_close(json);
    tt_json_close(json);
    tt_json_open(json, "results", '[');
    for (size_t i = 0; i < findings->count; i++)
        put_sarif_result(json, &findings->items[i], uri.data);
    tt_buf_free(&uri);
    return tt_json_end(TT_OK); /* closes what is open */
}

/* ---- JUnit --------------------------------------------------------------------------- */

/* Text of an attribute.  XML has no control characters but tab and line breaks. */
static void print_xml(const char *text)
{
    static const char special[] = "&<>\"", *const names[] = { "amp", "lt", "gt", "quot" };
    tt_buf safe = { 0 };
    (void)tt_text_append(text, &(tt_style){ 0 }, &safe);
    for (const char *at = safe.len > 0 ? safe.data : ""; *at != '\0'; at++) {
        const char *found = strchr(special, *at);
        if (found != NULL)
            printf("&%s;", names[found - special]);
        else
            putchar(*at);
    }
    tt_buf_free(&safe);
}

static void print_element(const char *name, const char *type, const char *message)
{
    printf("      <%s", name);
    if (type != NULL)
        printf(" type=\"%s\"", type);
    fputs(" message=\"", stdout);
    print_xml(message);
    fputs("\"/>\n", stdout);
}

static bool is_failure(const tt_answer *found)
{
    return args.is_strict || found->severity == TT_SEVERITY_ERROR;
}

/* A rule is a test: its findings that decide the exit code are failures, others are printed. */
static void print_test(const tt_rule *rule, const tt_findings *findings)
{
    printf("    <testcase classname=\"health\" name=\"%s\">\n", rule->id);
    for (size_t i = 0; i < findings->unchecked_count; i++)
        if (findings->unchecked[i].rule == rule)
            print_element("skipped", NULL, findings->unchecked[i].reason);
    for (size_t i = 0; i < findings->count; i++)
        if (tt_rule_find(findings->items[i].rule) == rule && is_failure(&findings->items[i]))
            print_element("failure", tt_severity_text(findings->items[i].severity),
                          findings->items[i].sentence);
    for (size_t i = 0; i < findings->count; i++)
        if (tt_rule_find(findings->items[i].rule) == rule && !is_failure(&findings->items[i])) {
            fputs("      <system-out>", stdout);
            print_xml(findings->items[i].sentence);
            fputs("</system-out>\n", stdout);
        }
    fputs("    </testcase>\n", stdout);
}

static void print_junit(const tt_call *call, const tt_findings *findings)
{
    int failed = 0;
    for (size_t i = 0; tt_rule_at(i) != NULL; i++) {
        bool has_failed = false;
        for (size_t k = 0; k < findings->count; k++)
            has_failed |=
                tt_rule_find(findings->items[k].rule) == tt_rule_at(i) && is_failure(&findings->items[k]);
        failed += has_failed;
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"", stdout);
    print_xml(call->path);
    printf("\" tests=\"%d\" failures=\"%d\" skipped=\"%zu\">\n", (int)findings->rules, failed,
           findings->unchecked_count);
    for (size_t i = 0; tt_rule_at(i) != NULL; i++)
        if (tt_health_asks(&args.options, tt_rule_at(i)))
            print_test(tt_rule_at(i), findings);
    fputs("  </testsuite>\n</testsuites>\n", stdout);
}

/* ---- the command ------------------------------------------------------------------------ */

static const char *rule_name(size_t i)
{
    return tt_rule_at(i) != NULL ? tt_rule_at(i)->id : NULL;
}

static tt_exit explain(const char *id, tt_error *err)
{
    const tt_rule *rule = tt_rule_find(id);
    if (rule == NULL)
        return tt_cmd_fail(
            err, TT_EXIT_USAGE, "%s",
            tt_cmd_unknown("rule", id, rule_name, "'tensortap health RUN --format json' names them"));
    tt_screen_say(TT_MOOD_PLAIN, "%s", rule->id);
    tt_screen_say(TT_MOOD_FAINT, "  %s\n", tt_severity_text(rule->severity));
    printf("%s\nLooks at: %s\nWhat to do: %s.\n", rule->summary, rule->needs, rule->remedy);
    return TT_EXIT_FINE;
}

static tt_exit health(tt_call *call)
{
    if (args.explain != NULL)
        return explain(args.explain, call->err);
    if (call->count == 0)
        return tt_cmd_fail(call->err, TT_EXIT_USAGE, "name a run; 'tensortap ls' lists them");
    tt_findings *findings = NULL; /* owned */
    tt_exit code = args.baseline != NULL
                       ? tt_overview_open(args.baseline, &args.options.baseline, call->err)
                       : TT_EXIT_FINE;
    if (code != TT_EXIT_FINE)
        return code;
    if (args.allow != NULL && !tt_overview_has_site(call->runs[0], args.allow)) {
        tt_run_close(args.options.baseline);
        return tt_overview_no_site(call->runs[0], args.allow, call->err);
    }
    args.options.allow = args.allow;
    args.options.path = call->path;
    tt_status st = tt_health(call->runs[0], &args.options, &findings, call->err);
    tt_run_close(args.options.baseline);
    if (st < 0)
        return st == TT_EINVAL ? TT_EXIT_USAGE : tt_cmd_exit(st, call->err);
    const char *format = args.format != NULL ? args.format : "text";
    if (strcmp(format, "json") == 0)
        st = print_json(call, findings);
    else if (strcmp(format, "sarif") == 0)
        st = print_sarif(call, findings);
    else if (strcmp(format, "junit") == 0)
        print_junit(call, findings);
    else
        print_text(call, findings);
    bool is_found = tt_findings_has(findings, args.is_strict ? TT_SEVERITY_WARNING : TT_SEVERITY_ERROR);
    tt_findings_free(findings);
    return st == TT_OK && is_found ? TT_EXIT_FOUND : tt_cmd_exit(st, call->err);
}

static const tt_option options[] = {
    { "select", "ID,...", "Only these rules", .to = &args.options.select },
    { "ignore", "ID,...", "Not these rules", .to = &args.options.ignore },
    { "allow", "GLOB", "Sites that may hold NaN or Inf; may be given again", .to = &args.allow,
      tt_words_join, "a pattern" },
    { "baseline", "RUN", "A good run: what it has too is no finding, what is far from it is",
      .to = &args.baseline },
    { "format", "FORMAT", "text, json, sarif or junit (text)", .to = &args.format, NULL,
      "text, json, sarif or junit" },
    { "explain", "ID", "Print what a rule looks for, and end", .to = &args.explain },
    TT_RANK_OPTION(&args.rank),
    { "strict", NULL, "Exit with 1 for warnings, too", .to = &args.is_strict },
};

const tt_cmd tt_cmd_health = {
    TT_CMD("health", "RUN", "what is wrong with a training, and what to do"),
    .doc = "State what is wrong with a training, the heaviest first, with evidence and what to do.  "
           "Exit code 1: there is an error.\v"
           "For example: tensortap health runs/today --ignore repeated-batch",
    TT_OPTIONS(options),
    .most = 1,
    .runs = 1,
    .extra = "name one run",
    .run = health,
};
