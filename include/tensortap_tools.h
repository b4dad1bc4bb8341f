/* tensortap_tools.h -- what the `tensortap` command and the Python extension use on top of
 * tensortap.h: reports about runs, tables, trees, charts, numbers as text.
 *
 * A program that embeds the library to record, read or save tensors needs tensortap.h
 * alone.  The same rules hold here.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TENSORTAP_TOOLS_H
#define TENSORTAP_TOOLS_H

#include "tensortap.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the message (if err is not NULL) and returns st, so that a failure is one line:
 *     return tt_fail(err, TT_EIO, "%s: %s", path, strerror(errno)); */
tt_status tt_fail(tt_error *err, tt_status st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with the text of the status; TT_OK writes nothing. */
tt_status tt_fail_plain(tt_error *err, tt_status st);

/* ---- memory that grows -------------------------------------------------- */

/* Makes room for `need` elements of so many bytes in a malloced array of *cap of them.
 * array: the address of the pointer to it.  On failure both stay as they were. */
tt_status tt_grow(void *array, size_t *cap, size_t need, size_t size);

typedef struct tt_buf {
    char *data; /* owned; NUL-terminated unless NULL; len does not count the NUL */
    size_t len, cap;
    tt_status st; /* the first failure; nothing is appended after it */
} tt_buf;

/* { 0 } is a valid empty buffer. */
void tt_buf_free(tt_buf *buf);
/* The first failure is kept in buf->st and returned by every later call, which then appends
 * nothing: look at the last of several results. */
tt_status tt_buf_append(tt_buf *buf, const void *bytes, size_t n);
tt_status tt_buf_text(tt_buf *buf, const char *text); /* appends a NUL-ended string */
tt_status tt_buf_int(tt_buf *buf, int64_t number);    /* many times faster than tt_buf_printf */
/* As files have numbers: seven bits a byte, or so many of the lowest bytes (at most 16), the lowest first. */
tt_status tt_buf_varint(tt_buf *buf, uint64_t number);
tt_status tt_buf_fixed(tt_buf *buf, uint64_t number, size_t bytes);
tt_status tt_buf_printf(tt_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tt_buf_clear(tt_buf *buf);           /* keeps the memory, forgets a failure */
void tt_buf_cut(tt_buf *buf, size_t len); /* drops what lies beyond len */

/* ---- tokens -------------------------------------------------------------- */

/* Writes by what each of the eight sums of a token is multiplied if its features stand so many blocks of 64 further on. */
void tt_sketch_turn(int64_t blocks, double out[16]);

/* ---- weights ------------------------------------------------------------- */

/* Writes a digest of each row (first dimension) and each column (all others) of a matrix, of its values rounded to
 * bfloat16.  The lowest bit is 0 if it is constant, and so identifies nothing.  A vector is one row.  TT_EDTYPE: complex numbers. */
tt_status tt_axes_compute(const tt_tensor *t, uint64_t *rows, uint64_t *columns);
void tt_axes_sizes(const tt_tensor *t, int64_t *rows, int64_t *columns);

/* ---- time --------------------------------------------------------------- */

double tt_clock_seconds(void); /* since some moment: for measuring, never set back */

/* ---- numbers as text ---------------------------------------------------- */

enum { TT_NUMBER_TEXT = 40 }; /* longest text of a number, with its NUL */

/* Writes the fewest digits that read back as the same number, as Python's repr does: "0.1", "3.0", "-0.0", "1e-07", "1e+22", "nan", "inf", "-inf".
 * A point whatever the locale.  Returns the length. */
size_t tt_number_f64(double x, char out[TT_NUMBER_TEXT]);
/* Writes a short form for tables: about four significant digits, at most 10 characters,
 * never more zeros than needed: "0", "-1.25", "3.142", "1.2e-07", "12345", "nan".
 * Whole numbers below 1e9 have all their digits. */
size_t tt_number_short(double x, char out[TT_NUMBER_TEXT]);

/* ---- JSON ---------------------------------------------------------------- */

enum {
    TT_JSON_DEPTH = 64, /* deeper nesting is TT_EINVAL */
    TT_JSON_SCHEMA = 1, /* of what the command and the findings write: docs/schemas */
};

/* Writes JSON into a buffer, which keeps the first failure.
 *
 *     tt_json json = { .out = &text };
 *     tt_json_open(&json, NULL, '{');
 *     tt_json_f64(&json, "mean", 0.5);
 *     tt_json_close(&json);
 *     tt_status st = tt_json_finish(&json);
 *
 * Values have a name in an object and none (NULL) in an array.  Calls that do not make JSON
 * (a name in an array, a close too many) are a mistake of the caller and asserted. */
typedef struct tt_json {
    tt_buf *out;     /* borrowed */
    bool is_compact; /* no spaces; one item of the outermost value, or of a list in it, per line */
    void (*drain)(tt_buf *out); /* empties a buffer that has become large; NULL: it grows */
    bool is_complete;           /* the outermost value has begun */
    uint32_t depth;
    struct {
        bool is_object, has_items;
    } level[TT_JSON_DEPTH];
} tt_json;

void tt_json_open(tt_json *json, const char *name, char bracket); /* '{' or '[' */
void tt_json_close(tt_json *json);
/* Control characters are escaped; bytes that are not UTF-8 become U+FFFD.  NULL: null. */
void tt_json_text(tt_json *json, const char *name, const char *text);
/* JSON has no NaN and no infinities: they are the strings "NaN", "Infinity" and "-Infinity",
 * which the numbers of JavaScript and Python read. */
void tt_json_f64(tt_json *json, const char *name, double x);
void tt_json_i64(tt_json *json, const char *name, int64_t x);
void tt_json_bool(tt_json *json, const char *name, bool x);
void tt_json_ints(tt_json *json, const char *name, const int64_t *x, int64_t count); /* a list */
tt_status tt_json_finish(tt_json *json); /* after a failure the text is incomplete */

/* ---- text and tables ------------------------------------------------------ */

typedef struct tt_style {
    bool is_colored; /* ANSI colours */
    bool is_ascii;   /* no character beyond ASCII */
    int32_t columns; /* cut lines to this width; 0: never */
} tt_style;

/* Appends untrusted text on one line.  Control sequences are escaped, so that a terminal does
 * not obey them; the line is cut to the style's columns. */
tt_status tt_text_append(const char *text, const tt_style *style, tt_buf *out);
typedef enum tt_mood {
    TT_MOOD_PLAIN,
    TT_MOOD_FAINT,  /* guides, remarks */
    TT_MOOD_TYPE,   /* element types */
    TT_MOOD_SPARK,  /* sparklines */
    TT_MOOD_PLACE,  /* devices */
    TT_MOOD_REMARK, /* worth a look */
    TT_MOOD_ALARM,  /* NaN, Inf, damage */
    TT_MOOD_COUNT_
} tt_mood;

const char *tt_mood_code(tt_mood mood); /* the escape sequence that starts its colour */

/* Columns, then cells row by row.  A table that is too wide first drops optional columns, then
 * shrinks those that may shrink, the widest first; at last its lines are cut. */
typedef struct tt_table tt_table;

typedef struct tt_table_column {
    const char *title; /* borrowed until the table is freed */
    bool is_right;     /* aligned to the right */
    int32_t least;     /* the column may shrink to this width (negative: texts are cut in the
                          middle, because their ends differ); 0: it may not shrink */
    uint32_t optional; /* not 0: the column may be dropped, the lowest number first */
} tt_table_column;

/* NULL: out of memory.  The functions below accept that; tt_table_render reports it, and every
 * other failure. */
tt_table *tt_table_create(const tt_style *style, const tt_table_column *columns, size_t count);
void tt_table_free(tt_table *table);
void tt_table_cell(tt_table *table, tt_mood mood, const char *text);
/* A cell with `lead` (the guides of a tree) drawn faintly before its text. */
void tt_table_branch(tt_table *table, const char *lead, tt_mood mood, const char *text);
tt_status tt_table_render(const tt_table *table, tt_buf *out);

/* ---- trees -------------------------------------------------------------- */

/* What is known about one tensor; NULL: unknown. */
typedef struct tt_facts {
    const char *dtype; /* "float32" */
    const int64_t *shape;
    int32_t ndim;
    const char *device; /* NULL: the CPU, which is not mentioned */
    const char *note;   /* why there are no values: "meta", "sparse" */
    const tt_stats *stats;
    const tt_hist *hist; /* drawn as a sparkline */
} tt_facts;

/* Appends one line about a tensor, without a newline:
 *
 *     float32[8, 64]  -3.1 … 2.87  mean 0.01 ± 0.98  ▂▃▅▇█▆▄▂▂  2 NaN  1 Inf
 *     int64[32, 128]  0 … 50256  mean 9981 ± 1.234e+04  █▅▃▂▂▂▂▂▂
 *     float32  0.6931472
 *     bool[64, 64]  37% true
 *     float32[512] cuda:0  all zero
 *     float32[512]  meta
 *
 * If the line is too wide for the style, it loses the sparkline first, then the mean, then the
 * range; NaN and Inf stay. */
tt_status tt_facts_line(const tt_facts *facts, const tt_style *style, tt_buf *out);

/* A row of a tree; its children are the rows behind it that are deeper, by one at first. */
typedef struct tt_tree_item {
    int32_t depth;            /* 0: at the left edge */
    const char *label, *text; /* "": none */
} tt_tree_item;

/* Appends the rows, a line each.  Labels of neighbours are padded to the same width, so that their texts
 * form a column.  Control sequences are escaped in labels, and in texts except for the colours of
 * tt_facts_line. */
tt_status tt_tree_append(const tt_tree_item *rows, size_t count, const tt_style *style, tt_buf *out);

/* The piece of a guide at one depth: before a node itself, or below an ancestor.  is_ended: no
 * neighbour follows there. */
const char *tt_tree_guide(bool is_own, bool is_ended, bool is_ascii);

/* The same tree drawn line by line, for logs. */
typedef enum tt_branch {
    TT_BRANCH_CALL,  /* opens a call: ┌── text */
    TT_BRANCH_ENTRY, /* ├─ text */
    TT_BRANCH_LAST,  /* └─ text */
} tt_branch;

/* Appends one line without a newline, behind depth guides ("│   "). */
tt_status tt_tree_line(int32_t depth, tt_branch branch, const char *text, const tt_style *style,
                       tt_buf *out);

/* ---- repeated layers ---------------------------------------------------------- */

typedef struct tt_fold_item {
    uint64_t kind;    /* equal for items that are alike */
    uint64_t numbers; /* stands for the numbers in its path; 0: there are none */
} tt_fold_item;

/* Finds the equal blocks at `at`, of `longest` items at most, whose folding saves most: items of the first one
 * come *times times, each time with other numbers.  Returns the length of a block; 0: there are none. */
size_t tt_fold_find(const tt_fold_item *items, size_t count, size_t at, size_t longest, size_t *times);

/* ---- DOT -------------------------------------------------------------------- */

/* One statement of the DOT language: a node, an arrow, or attributes of all of them.
 *
 *     tt_dot_open(&text);
 *     tt_dot dot = tt_dot_statement(&text, "n1", NULL);     // n1 [label="a b"]
 *     tt_dot_attribute(&dot, "label", "a b");
 *     tt_dot_end(&dot);
 *     tt_dot_close(&text);
 *
 * Texts may be untrusted; lines end with a newline. */
typedef struct tt_dot {
    tt_buf *out;
    bool is_open; /* it has an attribute */
} tt_dot;

void tt_dot_open(tt_buf *out);
tt_dot tt_dot_default(tt_buf *out, const char *what);                   /* "graph", "node" or "edge" */
tt_dot tt_dot_statement(tt_buf *out, const char *name, const char *to); /* to: NULL: a node */
void tt_dot_attribute(tt_dot *dot, const char *key, const char *text);
void tt_dot_end(const tt_dot *dot);
void tt_dot_close(tt_buf *out);

/* ---- flow charts ------------------------------------------------------------- */

/* Tensors as tables, joined by arrows: which tensor a program computed from which.  The
 * caller owns all of it.  Texts may be untrusted. */
typedef struct tt_graph_node {
    uint64_t id;          /* edges refer to it; greater than that of the node before */
    const char *name;     /* "y", "self.weight" */
    const char *file;     /* NULL: unknown; likewise code, function and device (the CPU) */
    const char *code;     /* the statement; may have several lines */
    const char *function; /* nodes of one frame are drawn in one box */
    const char *label;    /* of the box: "h.3.attn"; NULL: the function's name */
    uint64_t frame;       /* 0: none */
    int32_t line;
    bool is_source; /* it was read; where it was computed is unknown */
    const char *dtype;
    const int64_t *shape;
    int32_t ndim; /* -1: the shape is unknown */
    const char *device;
    const char *note;        /* why there are no values: "meta", "sparse" */
    const tt_stats *stats;   /* of the whole tensor; NULL: unknown */
    const tt_sample *sample; /* NULL: unknown; needs stats, whose element type it has */
} tt_graph_node;

typedef struct tt_graph_edge {
    uint64_t from, to;
} tt_graph_edge;

typedef struct tt_graph {
    const tt_graph_node *nodes;
    size_t node_count;
    const tt_graph_edge *edges; /* an edge of an unknown node is left out */
    size_t edge_count;
} tt_graph;

/* Appends the chart as DOT, its nodes as HTML-like tables. */
tt_status tt_graph_dot(const tt_graph *graph, tt_buf *out);
/* Returns the Graphviz engine for the chart: "dot" for a small one, otherwise "nop2", which
 * needs tt_graph_dot_placed. */
const char *tt_graph_engine(const tt_graph *graph);
/* The same as tt_graph_dot with a position for each node and arrow, for the engine nop2
 * (neato -n2): columns in the order of time, a page as wide as a screen, arrows that cross
 * no table.  Only Graphviz knows the size of a node: draw once with any sizes, in points,
 * and again with those that Graphviz printed. */
typedef struct tt_graph_size {
    double width, height;
} tt_graph_size;
tt_status tt_graph_dot_placed(const tt_graph *graph, const tt_graph_size *sizes, tt_buf *out);
/* Appends {"nodes": [...], "edges": [[from, to], ...]}.  stats has the keys of
 * Python's Stats; complex numbers are [real, imaginary]. */
tt_status tt_graph_json(const tt_graph *graph, tt_buf *out);

/* ---- for callers that hold a lock (the GIL) ------------------------------ */

/* Returns the same sample for one more owner, who frees it too.  Not thread-safe.  NULL: NULL. */
tt_sample *tt_sample_share(tt_sample *sample);
/* Is there room in the queue for an event of about so many bytes?  If not, release the lock
 * and wait. */
bool tt_recorder_has_room(const tt_recorder *rec, size_t bytes);
/* Waits until there is, or at most so many seconds; returns whether there is. */
bool tt_recorder_wait_room(tt_recorder *rec, size_t bytes, double seconds);
/* Would tt_saver_add copy so many bytes without waiting? */
bool tt_saver_has_room(tt_saver *saver, size_t bytes);
size_t tt_saver_held(tt_saver *saver); /* bytes of memory that it holds */

/* ---- runs ---------------------------------------------------------------- */

bool tt_glob_match(const char *glob, const char *name);
/* Parses "stats,value" or "stats|value" into bits of tt_product: any of stats, hist, digest,
 * sample, value.  TT_EINVAL: another word; the text begins with "keep must be". */
tt_status tt_products_parse(const char *text, uint32_t *out, tt_error *err);
typedef struct tt_check {
    int64_t blocks, points, values;
    int64_t damaged_blocks, damaged_bytes;
    int64_t torn_bytes;  /* an unfinished block at the end: not damage */
    int64_t gone_values; /* evicted to stay within max_bytes */
    bool is_closed;
    char first[160]; /* where the first damage is, and of what kind */
} tt_check;

/* Reads everything and verifies every checksum.  Nothing is decompressed.  A few threads share
 * the work. */
tt_status tt_run_check(tt_run *run, int32_t file, tt_check *out, tt_error *err);
/* Copies everything undamaged into a new, closed file. */
tt_status tt_run_repair(tt_run *run, int32_t file, const char *path, tt_check *out, tt_error *err);

/* ---- parts of a file that is somewhere else ---- */

/* What the 64 bytes at `at` in a file say, if they are the header of a block. */
typedef struct tt_block_about {
    bool is_end;    /* the last 64 bytes of a closed file ... */
    int64_t footer; /* ... say where its footer is */
    int64_t length; /* of the block */
} tt_block_about;
bool tt_block_look(const unsigned char bytes[64], int64_t at, tt_block_about *out);

typedef struct tt_stretch {
    int64_t at, len;
} tt_stretch;
/* Lists what of a file is read for anything but values: chunks of points, then blocks with texts, whose length is
 * not known (0).  *count: how many there are; the first cap of them are written. */
tt_status tt_run_stretches(const tt_run *run, int32_t file, tt_stretch *out, size_t cap, size_t *count);

/* A part of a file that was asked for and cannot be read: it is damaged, or the file is a mirror and has a hole there. */
typedef struct tt_missed {
    const char *path; /* of the file; the run's */
    int64_t at, len;  /* len 0: all of the block that begins there */
} tt_missed;
/* From now on, notes what is missed. */
void tt_run_note_missed(tt_run *run);
/* Returns how many there are, in *out, which is the run's and valid until it is read again. */
size_t tt_run_missed(const tt_run *run, const tt_missed **out);

/* ---- reports about a run ----------------------------------------------------------- */

/* Appends a field over the steps as `cells` characters (blocks, or ASCII).  Each is the mean
 * of some steps, of the points of these phases; "!" if one of them is not finite.
 * left_out: the number of points of other phases; may be NULL. */
tt_status tt_trend_append(tt_run *run, int32_t file, int32_t site, tt_field field, tt_phases phases,
                          size_t cells, const tt_style *style, tt_buf *out, size_t *left_out,
                          tt_error *err);

/* Does the name match the glob (NULL: any)?  Sites about the recording itself (tensortap/...)
 * match only a glob that begins like them. */
bool tt_site_is_shown(const char *name, const char *glob);

/* Which points of a site a report is about. */
typedef struct tt_look {
    int32_t rank;     /* -1: every rank; numbers are of the first that has the site */
    tt_phases phases; /* 0: training, or evaluation for a site without training points */
} tt_look;

typedef struct tt_latest {
    int32_t file;       /* of the latest point; -1: there is none */
    tt_phases phases;   /* of the latest point: training or evaluation */
    int64_t index;      /* of the latest point */
    tt_point latest;    /* the point itself */
    bool has_nonfinite; /* some point has NaN or Inf, in any phase and on every chosen rank ... */
    bool has_bad;       /* ... that counts, which a mask does not ... */
    int64_t bad_step;   /* ... from this step on */
} tt_latest;

/* What all files hold together. */
typedef struct tt_totals {
    int64_t bytes, points, dropped_events, damaged_bytes;
    int64_t first_step, last_step; /* 0, -1: none */
    const char *stopped;           /* as that of tt_run_file, of tt_run_stopped_first */
} tt_totals;
tt_totals tt_run_totals(const tt_run *run);
/* Appends "rank 3", "ranks 0, 2 to 5"; ranks in order. */
tt_status tt_ranks_append(const int32_t *ranks, size_t count, tt_buf *out);
/* A few bytes of zstd may unpack to any number of points, and one value may belong to many points.
 * Is this so much more than the run that it has to be read in smaller pieces? */
bool tt_run_outgrows(const tt_run *run, int64_t bytes);

/* Finds the latest point of a site. */
tt_status tt_run_look(tt_run *run, int32_t site, const tt_look *look, tt_latest *out, tt_error *err);
/* Finds the last point of these phases before number `before`; *index is -1 if there is none. */
tt_status tt_run_latest(tt_run *run, int32_t file, int32_t site, uint32_t phases, int64_t before,
                        int64_t *index, tt_error *err);
/* Is this file of a chosen rank? */
bool tt_look_has_file(const tt_look *look, const tt_run *run, int32_t file);
/* Returns the number of sites that match (tt_site_is_shown) and have points. */
int32_t tt_run_shown_count(const tt_run *run, const char *glob);

/* A line of the tree: a group of names (site -1), a site, or several sites whose names
 * differ in a number alone. */
typedef struct tt_tree_row {
    const char *label; /* "attn"; folded: "0-11"; borrowed */
    int32_t depth;
    uint64_t ended;         /* bit d: the branch at depth d has no more neighbours below */
    int32_t file, site;     /* folded: of the first; -1: a group */
    int32_t sites;          /* how many it represents */
    const int32_t *members; /* those sites; borrowed */
    int32_t width;          /* how many neighbours are folded into it; 1: none */
    const char *class_name; /* of the module; NULL: unknown, or no module; borrowed from the run */
    bool is_output;         /* an item of what the module above returned: "logits", "0" */
    tt_phases phases;       /* of latest, and for its trend */
    tt_point latest;        /* folded: merged stats of all, shape of the first */
    int32_t worst;          /* the first site with NaN or Inf that counts; -1: none ... */
    int64_t bad_step;       /* ... and its first such step */
    /* What folding hides: root mean squares of the latest points of its sites, where these are no numbers. */
    double rms_first, rms_last; /* 0: not known */
    int32_t odd; /* the site that is most unlike its siblings, which are alike; -1: none ... */
    double rms_odd, rms_usual; /* ... its rms, and the median of all */
} tt_tree_row;

typedef struct tt_run_tree {
    tt_tree_row *rows; /* owned, as all of it */
    size_t count;
    int32_t sites;
} tt_run_tree;

typedef enum tt_tree_how {
    TT_TREE_UNFOLDED = 1, /* one row for each repeated layer */
    TT_TREE_UNJOINED = 2, /* layers and 0-11 as two rows, not as layers.0-11 */
} tt_tree_how;

/* A tree of the sites that match (NULL: all) and have such points.  Dots and slashes in names
 * are branches.  how: bits of tt_tree_how.  TT_EMISMATCH: no site matches. */
tt_status tt_run_tree_create(tt_run *run, const tt_look *look, const char *only, uint32_t how,
                             tt_run_tree **out, tt_error *err);
void tt_run_tree_free(tt_run_tree *tree);

/* ---- answers ------------------------------------------------------------ */

/* How much an answer matters: one scale for commands, pages and Python. */
typedef enum tt_severity {
    TT_SEVERITY_NOTE,
    TT_SEVERITY_FINE,
    TT_SEVERITY_WARNING,
    TT_SEVERITY_ERROR,
} tt_severity;
const char *tt_severity_text(tt_severity severity); /* "note", "fine", "warning", "error" */

/* X(name, text): of a rule of health; where the first NaN or Inf was born; where two runs diverge, or that
 * they do not; what differs between two runs before any number is compared; what became of the program, of
 * its ranks or of their files; anything else. */
#define TT_ANSWER_KIND_MAP(X)   \
    X(FINDING, "finding")       \
    X(ORIGIN, "origin")         \
    X(DIVERGENCE, "divergence") \
    X(PREMISE, "premise")       \
    X(FAULT, "fault")           \
    X(NOTE, "note")
#define X(name, text) TT_ANSWER_##name,
typedef enum tt_answer_kind { TT_ANSWER_KIND_MAP(X) } tt_answer_kind;
#undef X

typedef enum tt_feed_kind { TT_FEED_BEFORE, TT_FEED_PARAMETER, TT_FEED_PREVIOUS } tt_feed_kind;
const char *tt_feed_text(tt_feed_kind kind);   /* "before" */
const char *tt_feed_phrase(tt_feed_kind kind); /* "fed by" */
/* A point that a value was computed from. */
typedef struct tt_feed {
    tt_feed_kind kind;
    int32_t site;
    const char *name; /* of the site; borrowed from the run */
    int64_t index;
    tt_point point;
} tt_feed;

enum { TT_NUMBERS_MOST = 4, TT_NEXT_MOST = 3, TT_FEEDS_MOST = 12 };

/* How sure a finding is.  Only what is certain is an error. */
typedef enum tt_likelihood {
    TT_LIKELIHOOD_NONE,    /* it is no finding */
    TT_LIKELIHOOD_LIKELY,  /* a limit decides, and a healthy training may reach it */
    TT_LIKELIHOOD_CERTAIN, /* it follows from what was recorded */
} tt_likelihood;

/* What a report comes to.  Whoever shows it lays out these fields, and looks for nothing in sentences. */
typedef struct tt_answer {
    tt_answer_kind kind;
    tt_severity severity;
    tt_likelihood likelihood;
    const char *rule;     /* which of its kind: id of a rule of health, "inputs", "killed"; NULL: none */
    const char *place;    /* the sites in a few words: "backbone (4 parameters)"; NULL: none */
    const int32_t *sites; /* of the run, the first to look at first ... */
    const char *const *names;            /* ... and their names */
    size_t site_count;                   /* 0: the whole run */
    int64_t first_step, last_step, call; /* -1: none */
    const int32_t *ranks;
    size_t rank_count; /* 0: all, or the run has one */
    struct {
        const char *name;
        double value;
    } numbers[TT_NUMBERS_MOST]; /* the evidence */
    size_t number_count;
    const tt_feed *feeds;
    size_t feed_count;
    const char *sentence; /* without severity, rule and remedy; no stop at its end */
    const char *detail;   /* further lines; NULL: none */
    const char *remedy;   /* what to do; NULL: none */
    const char *code;     /* "Linear in Block.forward (model.py:94)"; NULL: not known */
    const char *follows;  /* findings that it explains: "dead-units, growth (2)"; NULL: none ... */
    size_t follow_count;  /* ... and how many these are */
    const char *next[TT_NEXT_MOST]; /* commands that show more; a shell runs them as they are */
    size_t next_count;
} tt_answer;

struct tt_arena; /* core/base */

/* { 0 } is valid and empty. */
typedef struct tt_answers {
    tt_answer *items; /* owned, as all of it */
    size_t count, cap;
    struct tt_arena *texts;
    tt_status st; /* the first failure */
} tt_answers;
void tt_answers_free(tt_answers *answers);
/* Adds the members of an answer to the innermost object (docs/schemas/answer.json); most: sites that are named. */
void tt_answer_json(tt_json *json, const tt_answer *answer, size_t most);

/* Adds what became of a run: how its ranks ended, exceptions, damage, dropped events, black boxes.
 * path: as commands call the run; unread: points that are damaged, as far as the caller knows. */
tt_status tt_run_fate(const tt_run *run, const char *path, int64_t unread, tt_answers *out);
/* The command line that made the run; appended, nothing if it is not known. */
tt_status tt_run_command(const tt_run *run, tt_buf *out);
int64_t tt_run_started(const tt_run *run); /* ns since 1970; as the run says, else the file's time */
/* crashed: killed; stopped: an exception ended the program. */
typedef enum tt_state { TT_STATE_FINISHED, TT_STATE_LIVE, TT_STATE_CRASHED, TT_STATE_STOPPED } tt_state;
tt_state tt_run_state(const tt_run *run);
const char *tt_state_text(tt_state state); /* "finished" */
/* Does a process still write this file?  The writer holds a lock on it as long as it lives. */
bool tt_file_is_written(const char *path);

/* ---- nan ---------------------------------------------------------------- */

typedef enum tt_birth {
    TT_BIRTH_FORWARD,    /* everything recorded before it in the step was finite */
    TT_BIRTH_UPDATE,     /* a parameter: written by an update after it was last recorded */
    TT_BIRTH_BACKWARD,   /* a gradient; everything recorded of the forward was finite */
    TT_BIRTH_LOSS,       /* what backward() was called on; likewise */
    TT_BIRTH_EVALUATION, /* as forward, in evaluation: an update may lie before it that was not seen */
} tt_birth;
const char *tt_birth_text(tt_birth birth); /* "forward" */

typedef struct tt_nonfinite {
    int32_t file, site; /* site -1: there is none */
    int64_t index;      /* of the point */
    tt_point point;
    tt_birth birth;
    int64_t order, of;   /* place among the points of its step and file, from 1 */
    int32_t reached;     /* sites that were non-finite from then on, this one included */
    int32_t allowed;     /* non-finite sites that were left out */
    int32_t files;       /* that have such sites */
    int32_t masked;      /* sites that hold only -Inf where masks do: not counted ... */
    int32_t masked_site; /* ... the first of them; -1: none */
    int32_t
        together; /* gradients that became bad with it and were read together; 0: it is known to be first */
    int64_t unread;    /* points that are damaged */
    bool has_forward;  /* its step and file have outputs of modules ... */
    bool has_loss;     /* ... what backward() was called on ... */
    bool has_backward; /* ... gradients of outputs */
} tt_nonfinite;

/* Is a tensor meant to hold these values?  Only -Inf, in what a module was given or returned, unless it is a layer
 * with weights: a mask, or scores that it was added to.  class_name: of the module; NULL: unknown. */
bool tt_value_is_masked(const char *name, const char *class_name, int64_t nan, int64_t posinf,
                        int64_t neginf);

/* Of parameters and gradients that are read together: was a made before b?  site, parameter: numbers of the sites of
 * the value and, for a gradient, of its parameter; -1: it is a parameter. */
bool tt_gradient_is_before(int32_t site_a, int32_t parameter_a, int32_t site_b, int32_t parameter_b);

/* Finds where the first non-finite value appeared: in the first such step, a parameter before everything else; then
 * micro-batch by micro-batch what was recorded first (a child returns before its parent), the loss,
 * gradients of outputs; then gradients of parameters, in the order in which backward made them if that was seen.
 * Ranks are compared by this order, not by their clocks.  Evaluation goes by its time.  The loss comes
 * before numbers that the program logged.  Masks and steps that a scaler skipped do not count, unless a
 * -Inf that is new was the cause, or there is nothing but skipped steps.  Damaged points are left out.
 * allow: a glob of sites that may be non-finite; NULL: none. */
tt_status tt_run_nonfinite(tt_run *run, const char *allow, tt_nonfinite *out, tt_error *err);

/* Adds the origin as an answer, or that all is finite, and what was not counted or read.  path: as commands call the run. */
tt_status tt_nonfinite_answer(tt_run *run, const tt_nonfinite *n, const char *path, tt_answers *out,
                              tt_error *err);

/* Finds the points that it was computed from, finite or masks: the latest recorded before it in its
 * micro-batch, its parameters, and the same site's previous point. */
tt_status tt_run_feeds(tt_run *run, const tt_nonfinite *of, tt_feed *out, size_t cap, size_t *count,
                       tt_error *err);

/* ---- settings --------------------------------------------------------------- */

/* What the program had set at the end of a run, as its first file says; in the order of appearance. */
typedef struct tt_settings {
    tt_setting *items; /* owned; texts are borrowed from the run */
    size_t count;
} tt_settings;
tt_status tt_settings_read(const tt_run *run, tt_settings *out);
void tt_settings_free(tt_settings *settings);

/* ---- many ranks as one ------------------------------------------------------ */

/* What became of a site when the points of all ranks were joined. */
typedef struct tt_joined_site {
    int32_t ranks;  /* that have points of it ... */
    int32_t rank;   /* ... the lowest; -1: none */
    int32_t parts;  /* that the whole tensor has, at the latest step: 1: every rank has all of it */
    int64_t points; /* joined */
    int64_t
        incomplete;   /* steps and calls of which parts are missing, or hold too few elements: left out */
    int32_t found;    /* parts that were there, of the latest of these */
    int64_t partial;  /* of which ranks hold addends: left out */
    int64_t unknown;  /* whose placement is not known: left out */
    int64_t unplaced; /* without a placement: those of the lowest rank */
    int64_t unequal;  /* of which replicas differ: those of the lowest rank count */
    int64_t first_unequal; /* the first step of these; -1: none */
} tt_joined_site;

/* Makes a run of one file of a run of several; TT_EMISMATCH: nothing is placed, so nothing can be joined.
 * `parts` must outlive it. */
tt_status tt_run_join(tt_run *parts, tt_run **out, tt_error *err);
/* Joins every site now, and gives back what the indexes of the files took: `parts` has no points from now on.  For
 * whoever has two runs of many ranks. */
void tt_run_forget_parts(tt_run *joined);
/* What became of a site; NULL: this run is not joined. */
const tt_joined_site *tt_run_joined(const tt_run *run, int32_t site);

/* ---- diff --------------------------------------------------------------- */

typedef enum tt_verdict { TT_DIFF_SAME, TT_DIFF_NOISE, TT_DIFF_DIFFERS } tt_verdict;
const char *tt_verdict_text(tt_verdict verdict); /* "identical", "noise", "differs" */

/* The first occurrence of `from` in a name of run a is `to` in run b. */
typedef struct tt_rename {
    char from[64], to[64];
} tt_rename;

typedef struct tt_diff_options {
    const char *only;              /* glob of names in a, or in b alone; NULL: all sites */
    const char *ignore;            /* glob of sites and settings that are meant to differ; NULL: none */
    const tt_rename *rename;       /* for names missing in b; NULL: none */
    int64_t first_step, last_step; /* 0, INT64_MAX: all */
    const char *paths[2];          /* as commands call the runs; NULL: no commands are named */
    bool has_tolerance;            /* use rtol and atol instead of the noise floor */
    double rtol, atol;             /* same: |a - b| <= atol + rtol * |b|, in every field */
    /* Called now and then with the number of points read and of all points; may be NULL. */
    void (*progress)(int64_t done, int64_t total);
} tt_diff_options;

/* A difference between two points: the field that deviates most. */
typedef struct tt_diff_point {
    int64_t step, call; /* -1: no points differ */
    tt_field field;
    double a, b;
    double deviation, floor; /* and the floor there */
} tt_diff_point;

enum { TT_DIFF_SHAPE = 48 };
typedef struct tt_diff_site {
    const char *name; /* borrowed of run a or b */
    int32_t rank;
    tt_verdict verdict;
    int64_t points;         /* compared */
    int64_t only_a, only_b; /* points without a partner of the same step and call */
    int64_t unwritten;      /* others, of steps that the other run, which is thinned, did not write */
    tt_diff_point first;    /* the first above the floor, else the first that differs */
    tt_diff_point worst;    /* the one with the largest deviation */
    bool is_rounding;   /* a gradient that is zero but for rounding, of which the optimizer made steps */
    int64_t unlike;     /* points of another number of elements: they deviate in TT_FIELD_COUNT alone */
    int64_t bits;       /* points that were compared bit by bit, by digests that survive resharding */
    int64_t other_bits; /* the first step of these in which they differ; -1: none does */
    char shapes[2][TT_DIFF_SHAPE]; /* "[16, 8]", of the first pair whose shapes differ; "": none */
    int32_t dtypes[2];             /* of the first pair whose types differ; -1: none */
} tt_diff_site;
const char *tt_diff_site_text(const tt_diff_site *site); /* its verdict, or "only in a" */

/* Finds a rename that gives every site of a that is missing in b a partner; false: none. */
bool tt_diff_guess_rename(const tt_run *a, const tt_run *b, tt_rename *out);

typedef struct tt_diff {
    tt_diff_site *sites; /* owned; of a or b, by rank */
    size_t count;
    int64_t first;      /* number of the site that differs first; -1: none */
    tt_verdict verdict; /* the worst of all */
    tt_answers answers; /* premises, which may explain the rest, and at last what it comes to */
} tt_diff;
/* Both runs must outlive the result.  docs/guide/command.md has the noise floor. */
tt_status tt_diff_compute(tt_run *a, tt_run *b, const tt_diff_options *options, tt_diff **out,
                          tt_error *err);
void tt_diff_free(tt_diff *diff);

/* ---- health -------------------------------------------------------------- */

/* What computes a loss, as the recorder writes it under tensortap/labels/: those that are not negative
 * if their labels are what they should be. */
typedef enum tt_loss_made_by {
    TT_LOSS_BINARY_CROSS_ENTROPY = 1,
    TT_LOSS_NLL = 2,
    TT_LOSS_OF_PROBABILITIES = 3, /* a cross entropy of the output of a softmax */
    TT_LOSS_OF_SIGMOID = 4,       /* a binary cross entropy with logits, of the output of a sigmoid */
    TT_LOSS_OVER_BATCH = 5,       /* an nll_loss of a log_softmax over the first dimension */
    TT_LOSS_BROADCAST = 6,        /* of a difference of N predictions and N labels with N x N elements */
} tt_loss_made_by;

/* What a softmax inside a module normalises over, if that is not what it is used for; under tensortap/softmax/. */
typedef enum tt_softmax_over {
    TT_SOFTMAX_OVER_BATCH = 1,   /* the samples of a batch */
    TT_SOFTMAX_OVER_QUERIES = 2, /* the dimension before the one that a product with values sums over */
} tt_softmax_over;

struct tt_case; /* core/health */

/* What can be wrong with a training.  core/health has a file for each. */
typedef struct tt_rule {
    const char *id;           /* "gradient-vanishing" */
    tt_severity severity;     /* of most of its findings */
    tt_likelihood likelihood; /* of its warnings; errors are certain */
    const char *needs;        /* the data that it looks at */
    const char *summary;      /* what it finds, in one sentence */
    const char *remedy;       /* what to do */
    const char *hides;        /* ids, with commas: rules whose later findings follow from this one */
    void (*find)(struct tt_case *of);
} tt_rule;
const tt_rule *tt_rule_at(size_t i);         /* NULL past the end */
const tt_rule *tt_rule_find(const char *id); /* NULL: there is none */

/* A rule that lacks its data. */
typedef struct tt_unchecked {
    const tt_rule *rule;
    const char *reason; /* "no loss", "no optimizer": the same text where the cause is the same */
} tt_unchecked;

typedef struct tt_findings {
    tt_answer *items; /* owned, as all of it; the heaviest first */
    size_t count;
    tt_answers notes; /* what else is to be said of the run: its fate, what was not counted */
    tt_unchecked *unchecked;
    size_t unchecked_count;
    int32_t rules;       /* that were asked for */
    int64_t unread;      /* points that are damaged: no rule saw them */
    bool is_healthy;     /* nothing was found, and enough was seen to say so */
    bool has_gaps;       /* something was not seen: the verdict says what */
    const char *verdict; /* "2 errors, 1 warning"; "healthy"; "nothing found in 5 steps; ..." */
} tt_findings;

/* What the rules have seen of a run, so that of a run that has grown only the rest is read. */
typedef struct tt_histories tt_histories;
void tt_histories_free(tt_histories *histories);

typedef struct tt_health_options {
    const char *select;  /* ids, with commas; NULL: all */
    const char *ignore;  /* ids, with commas; NULL: none */
    const char *allow;   /* a glob of sites that may hold NaN or Inf; NULL: none */
    tt_run *baseline;    /* a good run; NULL: none */
    tt_histories **seen; /* what the rules have seen of the run; NULL: it is not kept */
    const char *path;    /* as commands call the run; NULL: its folder */
} tt_health_options;

bool tt_health_asks(const tt_health_options *options, const tt_rule *rule); /* for this rule? */
/* Finds what is wrong with a run.  Every point is read once.  The ranks of a run that says where its tensors belong
 * are joined: rules see the whole tensors, and ranks only where they compare them.  run: as it was opened, or
 * joined.  options may be NULL; *options->seen may be NULL at first, and is the caller's to free.
 * TT_EINVAL: select or ignore has a word that is no id. */
tt_status tt_health(tt_run *run, const tt_health_options *options, tt_findings **out, tt_error *err);
void tt_findings_free(tt_findings *findings);
/* Returns the heaviest finding about a site; NULL: none. */
const tt_answer *tt_findings_about(const tt_findings *findings, int32_t site);
/* Adds "verdict", "rules", "findings", "notes" and "unchecked" to the innermost object (docs/schemas/health.json). */
void tt_findings_json(tt_json *json, const tt_findings *findings);
/* Appends them as an object of their own, with "schema". */
tt_status tt_findings_write(const tt_findings *findings, tt_buf *out);

/* The same rules while a run is written.  Not thread-safe. */
typedef struct tt_checker tt_checker;
tt_status tt_checker_create(tt_checker **out, tt_error *err);
void tt_checker_free(tt_checker *checker);
/* Sites that match the glob may hold NaN or Inf; the text is the caller's, and stays. */
void tt_checker_allow(tt_checker *checker, const char *glob);
void tt_checker_module(tt_checker *checker, const char *path, const char *class_name);
void tt_checker_setting(tt_checker *checker, const char *key, const char *value);
/* Takes in an event of a site of this name.  Does not fail: without memory it sees less. */
void tt_checker_see(tt_checker *checker, const char *name, const tt_event *event);
/* Returns what was not found before: a rule finds the same place once. */
tt_status tt_checker_find(tt_checker *checker, tt_findings **out, tt_error *err);

/* The losses of a training that is running, judged as by the rule loss-spike. */
typedef struct tt_spikes tt_spikes;
tt_spikes *tt_spikes_create(void); /* NULL: out of memory */
void tt_spikes_free(tt_spikes *spikes);
/* Adds a loss.  Has it jumped, more than any before? */
bool tt_spikes_see(tt_spikes *spikes, double loss, int64_t step);

/* ---- tables for other engines --------------------------------------------- */

/* A table over any number of runs, as streams of Arrow's C interface: DuckDB, Polars, pyarrow and pandas read them. */
typedef struct tt_arrow tt_arrow;
struct ArrowArrayStream; /* of the standard */

typedef struct tt_arrow_options {
    const char *table; /* "points", "histograms", "runs", "sites", "notes", "settings", "findings" */
    const char *const *paths; /* of the runs ... */
    const char *const *names; /* ... and what the column `run` calls them; NULL: their paths */
    size_t path_count;
    const char *glob; /* of sites, as for tt_site_is_shown; NULL: all */
    int64_t first_step, last_step;
    const int32_t *
        ranks; /* points of these ranks as they are; none: of all ranks; NULL: joined, where they can be */
    size_t rank_count;
    const char *const *columns; /* in this order; NULL: all */
    size_t column_count;
    bool
        is_partial; /* what cannot be read is left out and counted; otherwise it ends the stream with an error */
} tt_arrow_options;

/* TT_EINVAL: there is no such table or column.  Nothing is opened yet. */
tt_status tt_arrow_create(const tt_arrow_options *options, tt_arrow **out, tt_error *err);
void tt_arrow_free(tt_arrow *arrow); /* its streams go on */
/* Makes a stream: fresh, from the first run on, each time. */
tt_status tt_arrow_stream_new(tt_arrow *arrow, struct ArrowArrayStream **out, tt_error *err);
void tt_arrow_stream_free(struct ArrowArrayStream *stream); /* releases it, if nobody has */

/* What the streams have left out so far. */
typedef struct tt_arrow_losses {
    int64_t runs;   /* that could not be opened */
    int64_t points; /* whose chunks are damaged */
    int64_t bytes;  /* of damaged blocks, which may have held points */
} tt_arrow_losses;
tt_arrow_losses tt_arrow_lost(const tt_arrow *arrow);
const char *tt_arrow_error(const tt_arrow *arrow); /* of the first stream that failed; NULL: none has */

/* The tables, and the columns of each, for people; NULL: past the end. */
const char *tt_arrow_table(size_t table, const char **about);
const char *tt_arrow_table_column(size_t table, size_t column, const char **type, const char **about);

/* ---- black boxes: blackbox/stepN/rankN.safetensors in a run's folder ------- */

typedef struct tt_blackboxes {
    size_t count; /* of steps */
    int64_t first_step;
    int64_t bytes;
} tt_blackboxes;

/* Counts those of a run, and removes them if asked to; nothing else in the folder is touched. */
void tt_blackbox_visit(const char *run, bool removes, tt_blackboxes *out);

/* ---- page ---------------------------------------------------------------- */

typedef struct tt_page_run {
    tt_run *run;
    const char *path;  /* the page shows it */
    const char *state; /* "finished", "live", "crashed", "stopped" */
} tt_page_run;

enum { TT_PAGE_RUNS_MOST = 20 };

/* Appends an HTML page about a run, about two and where they diverge, or about more, whose curves lie over each
 * other.  It needs no other file and no network.  is_private: without host, arguments, folder and commit. */
tt_status tt_page_write(const tt_page_run *runs, size_t count, bool is_private, tt_buf *out,
                        tt_error *err);
/* A page that a server sends in parts.  The runs must outlive it; a caller may change their
 * states. */
typedef struct tt_page tt_page;
tt_status tt_page_open(const tt_page_run *runs, size_t count, bool is_private, tt_page **out,
                       tt_error *err);
void tt_page_close(tt_page *page);
/* Reads what was written to the runs since. */
tt_status tt_page_follow(tt_page *page, tt_error *err);
/* Appends the HTML page without findings and data, which it then asks for. */
tt_status tt_page_first(tt_page *page, tt_buf *out, tt_error *err);
/* Appends a text of the page, as JSON: "facts", "0/table", "0/site/17", "0/charts", "0/answers", "diff". */
tt_status tt_page_block(tt_page *page, const char *name, tt_buf *out, tt_error *err);
/* Appends numbers: a header in JSON behind its length (4 bytes, little-endian), then columns.
 * have, add: names of columns ("0/numbers/value") with commas between them.  Of those that it has,
 * the caller gets the bins that changed since the cursor that it was given last (0: none). */
tt_status tt_page_data(tt_page *page, uint64_t since, const char *have, const char *add, tt_buf *out,
                       tt_error *err);
/* Appends an HTML page with other facts. */
tt_status tt_page_wrap(const tt_buf *facts, tt_buf *out);
tt_status tt_page_gzip(const tt_buf *bytes, tt_buf *out);

/* ---- files --------------------------------------------------------------- */

/* A file that appears under its name only when it is closed with TT_OK.  A device or a pipe
 * is written to directly; a symbolic link to anything else is an error.
 *
 *     tt_output *output;
 *     tt_status st = tt_output_open("out.csv", &output, &err);
 *     if (st == TT_OK)
 *         st = write_rows(tt_output_fd(output));
 *     st = tt_output_close(output, st, &err);
 */
typedef struct tt_output tt_output;
tt_status tt_output_open(const char *path, tt_output **out, tt_error *err);
int tt_output_fd(const tt_output *output);
/* Writes all of these parts, any of which may be empty; `parts` is changed. */
struct iovec;
tt_status tt_output_write(const tt_output *output, struct iovec *parts, int count, tt_error *err);
/* Returns st, or what failed. */
tt_status tt_output_close(tt_output *output, tt_status st, tt_error *err);

/* ---- the program ---------------------------------------------------------- */

bool tt_program_path(char *out, size_t room); /* the file that runs; false: unknown, or too long */

#ifdef __cplusplus
}
#endif
#endif
