/* batch.c -- rows of a table as columns in memory, in the form in which Arrow hands them over.
 *
 * Exists so that no table knows the layout of Arrow's buffers: bits for nulls, offsets of texts, dictionaries.
 * Each batch has dictionaries of its own, with the words of its rows: nothing grows with a stream.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arrow/batch.h"

#include "base/utf8.h"
#include "base/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {
    [TT_ARROW_INT] = 8,  [TT_ARROW_FLOAT] = 8, [TT_ARROW_TIME] = 8,    [TT_ARROW_BOOL] = 1,
    [TT_ARROW_TEXT] = 4, [TT_ARROW_WORD] = 4,  [TT_ARROW_DIGEST] = 16,
}; /* of a value; bools are bytes until they are handed over */

static tt_status find_field(const tt_arrow_batch *batch, const char *name, size_t *out, tt_error *err)
{
    for (size_t i = 0; i < batch->field_count; i++)
        if (strcmp(batch->fields[i].name, name) == 0) {
            *out = i;
            return TT_OK;
        }
    tt_buf all = { 0 };
    for (size_t i = 0; i < batch->field_count; i++)
        (void)tt_buf_printf(&all, "%s%s", i > 0 ? ", " : "", batch->fields[i].name);
    tt_status st = tt_fail(err, TT_EINVAL, "there is no column %.60s; there are %s", name,
                           all.data != NULL ? all.data : "none");
    tt_buf_free(&all);
    return st;
}

tt_status tt_arrow_batch_open(tt_arrow_batch *batch, const tt_arrow_field *fields, size_t field_count,
                              const char *const *wanted, size_t wanted_count, tt_error *err)
{
    *batch = (tt_arrow_batch){ .fields = fields, .field_count = field_count };
    size_t count = wanted != NULL ? wanted_count : field_count;
    memset(batch->place, -1, sizeof batch->place);
    for (size_t i = 0; i < count; i++) {
        size_t field = i;
        tt_status st = wanted != NULL ? find_field(batch, wanted[i], &field, err) : TT_OK;
        if (st < 0)
            return st;
        if (batch->place[field] >= 0)
            return tt_fail(err, TT_EINVAL, "the column %s is named twice", fields[field].name);
        batch->place[field] = (int8_t)i;
        batch->columns[i].type = fields[field].type;
    }
    batch->column_count = count;
    return TT_OK;
}

static void free_column(tt_arrow_column *column)
{
    free(column->data);
    free(column->valid);
    free(column->bytes);
    free(column->word_at);
    free(column->slots);
    *column = (tt_arrow_column){ .type = column->type };
}

void tt_arrow_batch_free(tt_arrow_batch *batch)
{
    for (size_t i = 0; i < batch->column_count; i++)
        free_column(&batch->columns[i]);
    *batch = (tt_arrow_batch){ 0 };
}

/* ---- stretches ------------------------------------------------------------- */

tt_status tt_arrow_reserve(tt_arrow_batch *batch, size_t n)
{
    for (size_t i = 0; batch->st == TT_OK && i < batch->column_count; i++) {
        tt_arrow_column *column = &batch->columns[i];
        size_t rows = (size_t)batch->rows + n + 1; /* of texts also where the last ends */
        bool fits = rows * sizes[column->type] <= column->cap;
        if (n > 1 && !fits && rows < TT_ARROW_ROWS + TT_ARROW_MORE)
            rows =
                TT_ARROW_ROWS + TT_ARROW_MORE; /* all that it will hold: it is not copied as it grows */
        batch->st = tt_grow(&column->data, &column->cap, rows * sizes[column->type], 1);
        if (batch->st == TT_OK && column->valid != NULL) {
            size_t before = column->valid_cap;
            batch->st = tt_grow(&column->valid, &column->valid_cap, (rows + 7) / 8, 1);
            if (batch->st == TT_OK)
                memset(column->valid + before, 0xff, column->valid_cap - before);
        }
    }
    return batch->st;
}

tt_status tt_arrow_make_null(tt_arrow_column *column, int64_t from, int64_t to)
{
    size_t before = column->valid_cap;
    tt_status st = tt_grow(&column->valid, &column->valid_cap, ((size_t)to + 7) / 8, 1);
    if (st < 0)
        return st;
    memset(column->valid + before, 0xff, column->valid_cap - before);
    column->nulls += to - from;
    for (; from < to && from % 8 != 0; from++)
        column->valid[from / 8] &= (unsigned char)~(1u << from % 8);
    if (to - from >= 8) {
        memset(column->valid + from / 8, 0, (size_t)(to - from) / 8);
        from += (to - from) / 8 * 8;
    }
    for (; from < to; from++)
        column->valid[from / 8] &= (unsigned char)~(1u << from % 8);
    return TT_OK;
}

static bool is_valid(const tt_arrow_column *column, int64_t row)
{
    return column->valid == NULL || (size_t)row / 8 >= column->valid_cap ||
           (column->valid[row / 8] >> row % 8 & 1) != 0;
}

/* Rows from here on are not there: they are valid until somebody makes them null, and were not counted. */
static void forget_nulls(tt_arrow_column *column, int64_t from)
{
    for (int64_t i = from; column->nulls > 0 && (size_t)i / 8 < column->valid_cap; i++) {
        column->nulls -= !is_valid(column, i);
        column->valid[i / 8] |= (unsigned char)(1u << i % 8);
    }
}

void tt_arrow_keep(tt_arrow_batch *batch, size_t n, const unsigned char *is_kept, size_t kept)
{
    size_t from = (size_t)batch->rows;
    for (size_t c = 0; c < batch->column_count; c++) {
        tt_arrow_column *column = &batch->columns[c];
        size_t size = sizes[column->type], to = from;
        for (size_t i = from; i < from + n; i++) {
            if (!is_kept[i - from])
                continue;
            memmove(column->data + to * size, column->data + i * size, size);
            bool was = is_valid(column, (int64_t)to), is = is_valid(column, (int64_t)i);
            if (was != is) {
                column->valid[to / 8] ^= (unsigned char)(1u << to % 8);
                column->nulls += was ? 1 : -1;
            }
            to++;
        }
        forget_nulls(column, (int64_t)(from + kept));
    }
}

void tt_arrow_drop(tt_arrow_batch *batch)
{
    for (size_t c = 0; c < batch->column_count; c++)
        forget_nulls(&batch->columns[c], batch->rows);
}

/* ---- texts ------------------------------------------------------------------ */

/* Appends a text to the bytes of a column, as UTF-8. */
static tt_status add_bytes(tt_arrow_column *column, const char *text, size_t len)
{
    if (len > INT32_MAX / 4 || column->bytes_len > INT32_MAX - 3 * len)
        return TT_ELIMIT; /* offsets have 32 bits */
    tt_status st = tt_grow(&column->bytes, &column->bytes_cap, column->bytes_len + 3 * len + 1, 1);
    for (size_t at = 0, n; st == TT_OK && at < len; at += n) {
        uint32_t code;
        n = tt_utf8_read(text + at, len - at, &code);
        bool is_bad = code == TT_UTF8_INVALID;
        memcpy(column->bytes + column->bytes_len, is_bad ? "\xEF\xBF\xBD" : text + at, is_bad ? 3 : n);
        column->bytes_len += is_bad ? 3 : n;
    }
    return st;
}

static uint64_t hash_of(const char *bytes, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

/* The slot of a word: its own, or the free one for it. */
static int32_t *slot_of(const tt_arrow_column *column, const char *word, size_t len)
{
    for (uint64_t at = hash_of(word, len);; at++) {
        int32_t *slot = &column->slots[at & (column->slot_count - 1)];
        if (*slot == 0)
            return slot;
        const int32_t *ends = column->word_at + *slot - 1;
        if ((size_t)(ends[1] - ends[0]) == len && memcmp(column->bytes + ends[0], word, len) == 0)
            return slot;
    }
}

static tt_status grow_slots(tt_arrow_column *column)
{
    enum { LEAST = 64 };
    if ((size_t)column->words * 2 < column->slot_count)
        return TT_OK;
    size_t count = column->slot_count == 0 ? LEAST : column->slot_count * 2;
    int32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        return TT_ENOMEM;
    free(column->slots);
    column->slots = slots;
    column->slot_count = count;
    for (int32_t i = 0; i < column->words; i++) {
        int32_t at = column->word_at[i];
        *slot_of(column, column->bytes + at, (size_t)(column->word_at[i + 1] - at)) = i + 1;
    }
    return TT_OK;
}

tt_status tt_arrow_word(tt_arrow_column *column, const char *text, size_t len, int32_t *out)
{
    if (column->word < column->words) { /* mostly it is the one before again */
        const int32_t *ends = column->word_at + column->word;
        if ((size_t)(ends[1] - ends[0]) == len && memcmp(column->bytes + ends[0], text, len) == 0) {
            *out = column->word;
            return TT_OK;
        }
    }
    tt_status st = grow_slots(column);
    if (st == TT_OK)
        st = tt_grow(&column->word_at, &column->word_cap, (size_t)column->words + 2,
                     sizeof *column->word_at);
    size_t at = column->bytes_len;
    if (st == TT_OK)
        st = add_bytes(column, text, len); /* at the end; taken back if it is known */
    if (st < 0)
        return st;
    int32_t *slot = slot_of(column, column->bytes + at, column->bytes_len - at);
    if (*slot != 0) {
        column->bytes_len = at;
    } else {
        column->word_at[column->words] = (int32_t)at;
        column->word_at[++column->words] = (int32_t)column->bytes_len;
        *slot = column->words;
    }
    *out = column->word = *slot - 1;
    return TT_OK;
}

/* ---- cells ------------------------------------------------------------------ */

/* The column of the next cell; NULL: it was not asked for, or something failed. */
static tt_arrow_column *next_cell(tt_arrow_batch *batch)
{
    if (batch->at == 0)
        (void)tt_arrow_reserve(batch, 1);
    tt_arrow_column *column = tt_arrow_column_of(batch, batch->at++);
    return batch->st == TT_OK ? column : NULL;
}

static void put(tt_arrow_batch *batch, tt_arrow_column *column, const void *value)
{
    size_t size = sizes[column->type];
    memcpy(column->data + (size_t)batch->rows * size, value, size);
}

static void put_null(tt_arrow_batch *batch, tt_arrow_column *column)
{
    static const char nothing[16];
    int32_t here = (int32_t)column->bytes_len;
    put(batch, column, column->type == TT_ARROW_TEXT ? (const void *)&here : nothing);
    batch->st = tt_arrow_make_null(column, batch->rows, batch->rows + 1);
}

void tt_arrow_null(tt_arrow_batch *batch)
{
    tt_arrow_column *column = next_cell(batch);
    if (column != NULL)
        put_null(batch, column);
}

void tt_arrow_int(tt_arrow_batch *batch, int64_t x)
{
    tt_arrow_column *column = next_cell(batch);
    if (column != NULL)
        put(batch, column, &x);
}

void tt_arrow_time(tt_arrow_batch *batch, int64_t ns)
{
    tt_arrow_int(batch, ns / 1000 - (ns % 1000 < 0));
}

void tt_arrow_float(tt_arrow_batch *batch, double x)
{
    tt_arrow_column *column = next_cell(batch);
    if (column == NULL)
        return;
    if (isfinite(x))
        put(batch, column, &x);
    else
        put_null(batch, column);
}

void tt_arrow_text_of(tt_arrow_batch *batch, const char *text, size_t len)
{
    tt_arrow_column *column = next_cell(batch);
    int32_t number = 0;
    if (column == NULL)
        return;
    if (text == NULL) {
        put_null(batch, column);
        return;
    }
    if (column->type == TT_ARROW_TEXT) {
        number = (int32_t)column->bytes_len;
        batch->st = add_bytes(column, text, len);
    } else {
        batch->st = tt_arrow_word(column, text, len, &number);
    }
    put(batch, column, &number);
}

void tt_arrow_text(tt_arrow_batch *batch, const char *text)
{
    tt_arrow_text_of(batch, text, text != NULL ? strlen(text) : 0);
}

void tt_arrow_end_row(tt_arrow_batch *batch)
{
    batch->at = 0;
    batch->rows += batch->st == TT_OK;
}

/* ---- handing over ------------------------------------------------------------ */

struct tt_arrow_places {
    _Atomic int users;
    tt_arena arena;
};

tt_arrow_places *tt_arrow_places_create(void)
{
    tt_arrow_places *places = calloc(1, sizeof *places);
    if (places != NULL)
        places->users = 1;
    return places;
}

void tt_arrow_places_drop(tt_arrow_places *places)
{
    if (places == NULL || --places->users > 0)
        return;
    tt_arena_free(&places->arena);
    free(places);
}

/* What an exported array owns. */
typedef struct owned {
    void *memory[3];         /* each of them */
    const void *buffers[3];  /* as Arrow wants them */
    tt_arrow_places *places; /* of its dictionary; NULL: none */
    struct ArrowArray *children[];
} owned;

static void release_array(struct ArrowArray *array)
{
    owned *own = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (own->children[i]->release != NULL) /* else somebody has moved it away */
            own->children[i]->release(own->children[i]);
        free(own->children[i]);
    }
    if (array->dictionary != NULL && array->dictionary->release != NULL)
        array->dictionary->release(array->dictionary);
    tt_arrow_places_drop(own->places);
    for (size_t i = 0; i < 3; i++)
        free(own->memory[i]);
    free(own);
    array->release = NULL;
}

static owned *make_array(struct ArrowArray *array, int64_t length, int64_t nulls, int64_t buffers,
                         size_t children)
{
    owned *own = calloc(1, sizeof *own + children * sizeof own->children[0]);
    if (own != NULL)
        *array = (struct ArrowArray){ .length = length,
                                      .null_count = nulls,
                                      .n_buffers = buffers,
                                      .buffers = own->buffers,
                                      .release = release_array,
                                      .private_data = own };
    return own;
}

/* Buffer i of an array takes this memory over. */
static void give(owned *own, size_t i, void *memory)
{
    own->memory[i] = memory;
    own->buffers[i] = memory;
}

static const int32_t no_words[2];

/* Buffers of no bytes: some readers want an address. */
static void give_texts(owned *own, void *offsets, void *bytes)
{
    give(own, 1, offsets);
    give(own, 2, bytes);
    if (offsets == NULL)
        own->buffers[1] = no_words;
    if (bytes == NULL)
        own->buffers[2] = no_words;
}

static tt_status export_words(tt_arrow_column *column, tt_arrow_places *places, struct ArrowArray *out)
{
    struct ArrowArray *words = tt_arena_alloc(&places->arena, sizeof *words);
    owned *own = words != NULL ? make_array(words, column->words, 0, 3, 0) : NULL;
    if (own == NULL)
        return TT_ENOMEM;
    give_texts(own, column->word_at, column->bytes);
    column->word_at = NULL;
    column->bytes = NULL;
    out->dictionary = words;
    ((owned *)out->private_data)->places = places;
    places->users++;
    return TT_OK;
}

/* Bytes that are 0 or 1 become bits. */
static void pack_bools(tt_arrow_column *column, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        unsigned bit = (unsigned)(column->data[i] != 0) << i % 8;
        column->data[i / 8] = (char)(i % 8 == 0 ? bit : (unsigned char)column->data[i / 8] | bit);
    }
}

static tt_status export_column(tt_arrow_column *column, int64_t rows, tt_arrow_places *places,
                               struct ArrowArray *out)
{
    bool is_text = column->type == TT_ARROW_TEXT;
    tt_status st = TT_OK;
    owned *own = make_array(out, rows, column->nulls, is_text ? 3 : 2, 0);
    if (own == NULL)
        return TT_ENOMEM;
    if (column->type == TT_ARROW_BOOL)
        pack_bools(column, rows);
    if (is_text && column->data != NULL) {
        int32_t end = (int32_t)column->bytes_len;
        memcpy(column->data + (size_t)rows * sizeof end, &end, sizeof end);
    }
    if (column->type == TT_ARROW_WORD)
        st = export_words(column, places, out);
    give(own, 0, column->valid);
    column->valid = NULL;
    if (is_text) {
        give_texts(own, column->data, column->bytes);
        column->bytes = NULL;
    } else {
        give(own, 1, column->data);
        if (column->data == NULL)
            own->buffers[1] = no_words;
    }
    column->data = NULL;
    free_column(column); /* the rest */
    return st;
}

tt_status tt_arrow_batch_export(tt_arrow_batch *batch, tt_arrow_places *places, struct ArrowArray *out)
{
    struct ArrowArray whole = { 0 };
    owned *own = make_array(&whole, batch->rows, 0, 1, batch->column_count);
    tt_status st = own != NULL ? TT_OK : TT_ENOMEM;
    for (size_t i = 0; st == TT_OK && i < batch->column_count; i++) {
        struct ArrowArray *child = calloc(1, sizeof *child);
        if (child == NULL) {
            st = TT_ENOMEM;
            break;
        }
        own->children[whole.n_children++] = child;
        st = export_column(&batch->columns[i], batch->rows, places, child);
    }
    batch->rows = 0;
    if (st == TT_OK) {
        whole.children = own->children;
        *out = whole;
    } else if (own != NULL) {
        release_array(&whole);
    }
    return st;
}

/* ---- the schema --------------------------------------------------------------- */

static void release_schema(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i]->release != NULL)
            schema->children[i]->release(schema->children[i]);
        free(schema->children[i]);
    }
    if (schema->dictionary != NULL && schema->dictionary->release != NULL)
        schema->dictionary->release(schema->dictionary);
    free(schema->dictionary);
    free((void *)schema->children);
    schema->release = NULL;
}

/* Names and formats are texts of the program: they outlive every schema. */
static tt_status export_field(const tt_arrow_field *field, struct ArrowSchema *out)
{
    static const char *const formats[] = {
        [TT_ARROW_INT] = "l",  [TT_ARROW_FLOAT] = "g", [TT_ARROW_TIME] = "tsu:UTC", [TT_ARROW_BOOL] = "b",
        [TT_ARROW_TEXT] = "u", [TT_ARROW_WORD] = "i",  [TT_ARROW_DIGEST] = "w:16",
    };
    *out = (struct ArrowSchema){ .format = formats[field->type],
                                 .name = field->name,
                                 .flags = ARROW_FLAG_NULLABLE,
                                 .release = release_schema };
    if (field->type != TT_ARROW_WORD)
        return TT_OK;
    out->dictionary = malloc(sizeof *out->dictionary);
    if (out->dictionary == NULL)
        return TT_ENOMEM;
    *out->dictionary = (struct ArrowSchema){
        .format = "u", .name = "", .flags = ARROW_FLAG_NULLABLE, .release = release_schema
    };
    return TT_OK;
}

tt_status tt_arrow_schema_export(const tt_arrow_batch *batch, struct ArrowSchema *out)
{
    struct ArrowSchema whole = { .format = "+s", .name = "", .release = release_schema };
    tt_status st = TT_OK;
    whole.children = calloc(batch->column_count + 1, sizeof *whole.children);
    if (whole.children == NULL)
        return TT_ENOMEM;
    for (size_t column = 0; st == TT_OK && column < batch->column_count; column++) {
        size_t field = 0;
        while (batch->place[field] != (int8_t)column)
            field++;
        struct ArrowSchema *child = calloc(1, sizeof *child);
        if (child == NULL) {
            st = TT_ENOMEM;
            break;
        }
        whole.children[whole.n_children++] = child;
        st = export_field(&batch->fields[field], child);
    }
    if (st == TT_OK)
        *out = whole;
    else
        release_schema(&whole);
    return st;
}
