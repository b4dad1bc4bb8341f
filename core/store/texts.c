/* texts.c -- what was said about a run: the sessions' key and value texts, notes, modules, settings, placements.
 *
 * Exists apart from run.c because these are the only parts of a run that are kept
 * in memory as text; how much is limited.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/join/join.h"
#include "store/placement.h"
#include "store/run.h"

#include <stdlib.h>

enum { TEXT_BYTES_MAX = 16 << 20, INFO_MAX = 1024, NOTES_MAX = 1 << 18, MODULES_MAX = 1 << 18 };
enum { SETTINGS_MAX = 1 << 16, THINNED_MAX = 1 << 20 };

static const char *keep(tt_tap *tap, const void *bytes, size_t len)
{
    tap->text_bytes += len + 16;
    return tap->text_bytes > TEXT_BYTES_MAX ? NULL : tt_arena_text(&tap->texts, bytes, len);
}

static tt_status read_session(tt_tap *tap, int64_t at)
{
    tt_status st = tt_scan_load(&tap->scan, at, TT_BLOCK_SESSION, NULL);
    if (st < 0)
        return st;
    tt_cursor cursor = tt_cursor_over(tap->scan.body.data, tap->scan.body.len);
    const char **info = malloc((size_t)INFO_MAX * 2 * sizeof *info);
    if (info == NULL)
        return TT_ENOMEM;
    int32_t count = 0;
    while (tt_cursor_left(&cursor) > 0 && count < INFO_MAX * 2) {
        uint64_t len = tt_cursor_varint(&cursor);
        const unsigned char *text = tt_cursor_take(&cursor, len);
        if (text == NULL || (info[count] = keep(tap, text, len)) == NULL)
            break;
        count++;
    }
    free((void *)tap->info);
    tap->info = info;
    tap->info_count = count / 2;
    return TT_OK;
}

static tt_status add_note(tt_tap *tap, tt_cursor *cursor)
{
    tt_note note = { .step = tt_cursor_signed(cursor), .time = tt_cursor_signed(cursor) };
    if (cursor->is_bad || tap->note_count >= NOTES_MAX)
        return TT_EFORMAT;
    note.text = keep(tap, cursor->at, tt_cursor_left(cursor));
    if (note.text == NULL)
        return TT_EFORMAT;
    tt_status st = tt_grow(&tap->notes, &tap->note_cap, (size_t)tap->note_count + 1, sizeof note);
    if (st == TT_OK)
        tap->notes[tap->note_count++] = note;
    return st;
}

static tt_status add_module(tt_tap *tap, tt_cursor *cursor)
{
    uint64_t len = tt_cursor_varint(cursor);
    const unsigned char *path = tt_cursor_take(cursor, len);
    if (path == NULL || tap->module_count >= MODULES_MAX)
        return TT_EFORMAT;
    tt_module module = { .path = keep(tap, path, len),
                         .class_name = keep(tap, cursor->at, tt_cursor_left(cursor)) };
    if (module.path == NULL || module.class_name == NULL)
        return TT_EFORMAT;
    tt_status st = tt_grow(&tap->modules, &tap->module_cap, (size_t)tap->module_count + 1, sizeof module);
    if (st == TT_OK)
        tap->modules[tap->module_count++] = module;
    return st;
}

static tt_status add_setting(tt_tap *tap, tt_cursor *cursor)
{
    tt_setting setting = { .step = tt_cursor_signed(cursor) };
    uint64_t len = tt_cursor_varint(cursor);
    const unsigned char *key = tt_cursor_take(cursor, len);
    if (key == NULL || tap->setting_count >= SETTINGS_MAX)
        return TT_EFORMAT;
    setting.key = keep(tap, key, len);
    setting.value = keep(tap, cursor->at, tt_cursor_left(cursor));
    if (setting.key == NULL || setting.value == NULL)
        return TT_EFORMAT;
    tt_status st =
        tt_grow(&tap->settings, &tap->setting_cap, (size_t)tap->setting_count + 1, sizeof setting);
    if (st == TT_OK)
        tap->settings[tap->setting_count++] = setting;
    return st;
}

static tt_status add_thinned(tt_tap *tap, tt_cursor *cursor)
{
    tt_thinned one;
    if (tap->thinned_count >= THINNED_MAX || !tt_thinned_read(cursor, &one))
        return TT_EFORMAT;
    tt_status st = tt_grow(&tap->thinned, &tap->thinned_cap, (size_t)tap->thinned_count + 1, sizeof one);
    if (st == TT_OK)
        tap->thinned[tap->thinned_count++] = one;
    return st;
}

/* Does a note say what ended the session? */
static bool says_stop(const tt_note *note)
{
    static const char words[] = "stopped by ";
    return strncmp(note->text, words, strlen(words)) == 0;
}

static tt_status read_notes(tt_tap *tap, int64_t at)
{
    tt_status st = tt_scan_load(&tap->scan, at, TT_BLOCK_BATCH, NULL);
    if (st < 0)
        return st;
    tt_cursor cursor = tt_cursor_over(tap->scan.body.data, tap->scan.body.len), section;
    for (uint64_t kind; st == TT_OK && tt_section_next(&cursor, &kind, &section);) {
        if (kind == TT_SECTION_NOTE)
            st = add_note(tap, &section);
        else if (kind == TT_SECTION_MODULE)
            st = add_module(tap, &section);
        else if (kind == TT_SECTION_SETTING)
            st = add_setting(tap, &section);
        else if (kind == TT_SECTION_THINNED)
            st = add_thinned(tap, &section);
        else if (kind == TT_SECTION_MESH)
            st = tt_mesh_read(tap, &section);
        else if (kind == TT_SECTION_PLACEMENT)
            st = tt_placement_read(tap, &section);
        if (kind == TT_SECTION_NOTE && st == TT_OK && says_stop(&tap->notes[tap->note_count - 1])) {
            tap->stopped = tap->notes[tap->note_count - 1].text;
            tap->stopped_at = at;
        }
    }
    return st;
}

tt_status tt_run_texts(tt_tap *tap)
{
    tt_status st = TT_OK;
    if (tap->index.sessions.count > tap->sessions_read) { /* the latest says it all */
        tap->sessions_read = tap->index.sessions.count;
        st = read_session(tap, tap->index.sessions.at[tap->sessions_read - 1]);
    }
    while (st != TT_ENOMEM && tap->notes_read < tap->index.notes.count)
        st = read_notes(tap, tap->index.notes.at[tap->notes_read++]);
    tt_placements_sort(tap);
    tt_buf_free(&tap->scan.body);        /* of a thousand files it would be most of the memory */
    return st == TT_ENOMEM ? st : TT_OK; /* damaged texts are missing texts */
}

const char *tt_run_info_key(const tt_run *run, int32_t file, int32_t i)
{
    if (file < 0 || file >= run->count || i < 0 || i >= run->taps[file]->info_count)
        return NULL;
    return run->taps[file]->info[2 * i];
}

const char *tt_run_info_value(const tt_run *run, int32_t file, int32_t i)
{
    return tt_run_info_key(run, file, i) != NULL ? run->taps[file]->info[2 * i + 1] : NULL;
}

const char *tt_run_info(const tt_run *run, const char *key)
{
    for (int32_t i = 0; tt_run_info_key(run, 0, i) != NULL; i++)
        if (strcmp(tt_run_info_key(run, 0, i), key) == 0)
            return tt_run_info_value(run, 0, i);
    return NULL;
}

int32_t tt_run_note_count(const tt_run *run, int32_t file)
{
    return file < 0 || file >= run->count ? 0 : run->taps[file]->note_count;
}

tt_status tt_run_note(const tt_run *run, int32_t file, int32_t i, tt_note *out)
{
    if (i < 0 || i >= tt_run_note_count(run, file))
        return TT_EINVAL;
    *out = run->taps[file]->notes[i];
    return TT_OK;
}

int32_t tt_run_module_count(const tt_run *run, int32_t file)
{
    return file < 0 || file >= run->count ? 0 : run->taps[file]->module_count;
}

tt_status tt_run_module(const tt_run *run, int32_t file, int32_t i, tt_module *out)
{
    if (i < 0 || i >= tt_run_module_count(run, file))
        return TT_EINVAL;
    *out = run->taps[file]->modules[i];
    return TT_OK;
}

tt_status tt_run_setting(const tt_run *run, int32_t file, int32_t i, tt_setting *out)
{
    if (file < 0 || file >= run->count || i < 0 || i >= run->taps[file]->setting_count)
        return TT_EINVAL;
    *out = run->taps[file]->settings[i];
    return TT_OK;
}

/* A joined run has the steps of the rank that wrote the fewest. */
tt_status tt_run_thinned(const tt_run *run, int32_t file, int32_t i, tt_thinned *out)
{
    if (file < 0 || file >= run->count || i < 0)
        return TT_EINVAL;
    const tt_tap *tap = run->taps[file];
    if (tap->join != NULL)
        return tt_run_thinned(tap->join->parts, tt_run_sparsest(tap->join->parts), i, out);
    if (i >= tap->thinned_count)
        return TT_EINVAL;
    *out = tap->thinned[i];
    return TT_OK;
}

static int64_t widest_of(const tt_tap *tap)
{
    int64_t widest = 1;
    for (int32_t i = 0; i < tap->thinned_count; i++)
        if (tap->thinned[i].kind == TT_THINNED_TENSORS && tap->thinned[i].stride > widest)
            widest = tap->thinned[i].stride;
    return widest;
}

int32_t tt_run_sparsest(const tt_run *run)
{
    int32_t sparsest = 0;
    for (int32_t file = 1; file < run->count; file++)
        if (widest_of(run->taps[file]) > widest_of(run->taps[sparsest]))
            sparsest = file;
    return sparsest;
}

int64_t tt_run_widest_stride(const tt_run *run)
{
    if (run->count == 0)
        return 1;
    const tt_tap *tap = run->taps[tt_run_sparsest(run)];
    return tap->join != NULL ? tt_run_widest_stride(tap->join->parts) : widest_of(tap);
}

int64_t tt_run_stride(const tt_run *run, int32_t file, tt_thinned_kind kind, int64_t step)
{
    const tt_tap *tap = file >= 0 && file < run->count ? run->taps[file] : NULL;
    int64_t widest = 1;
    for (int32_t part = 0; tap != NULL && tap->join != NULL && part < tap->join->parts->count; part++) {
        int64_t stride = tt_run_stride(tap->join->parts, part, kind, step);
        widest = stride > widest ? stride : widest;
    }
    if (widest > 1)
        return widest;
    for (int32_t i = tap != NULL ? tap->thinned_count : 0; i-- > 0;)
        if (tap->thinned[i].kind == kind && tap->thinned[i].from <= step)
            return tap->thinned[i].stride;
    return 1;
}
