/* src/json/path.c
 *
 * A path is an array of steps. A filter is one step, followed by the `n_inner` fields that lead from an element to the
 * compared value. Names and literals are stored in `words`, without their escapes.
 */
#include "json/path.h"

#include <stdint.h>
#include <stdlib.h>

#define DIGITS_MAX 9 /* digits of an index: no array is longer, and no overflow is possible */
#define NUMBER_MAX 32

enum step_kind { STEP_FIELD, STEP_SLICE, STEP_ALL, STEP_FILTER };
enum filter_op { FILTER_EQUAL, FILTER_UNEQUAL, FILTER_EXISTS };
enum literal_kind { LITERAL_TEXT, LITERAL_NUMBER, LITERAL_TRUE, LITERAL_FALSE, LITERAL_NULL };

struct word {
    size_t at, len; /* in words */
};

struct step {
    enum step_kind kind;
    struct word word; /* FIELD: its name; FILTER: LITERAL_TEXT */
    struct {
        int64_t from, to; /* negative: from the end */
        bool to_end;
    } slice;
    struct {
        enum filter_op op;
        enum literal_kind literal;
        double number;
        size_t n_inner; /* following steps that belong to the filter */
    } filter;
};

struct belfry_kube_path {
    size_t n_steps;
    char *words; /* stored after the steps */
    struct step steps[];
};

/* ---- reading ---- */

struct reader {
    struct belfry_bytes text;
    size_t at;
    size_t n_steps, n_words;
    struct step steps[KUBE_STEPS_MAX];
    char words[KUBE_PATH_MAX];
};

static bool is_next(const struct reader *r, char c)
{
    return r->at < r->text.len && r->text.data[r->at] == c;
}

static bool skip_literal(struct reader *r, const char *what)
{
    size_t len = strlen(what);
    if (r->text.len - r->at < len || memcmp(r->text.data + r->at, what, len) != 0)
        return false;
    r->at += len;
    return true;
}

static void skip_blanks(struct reader *r)
{
    while (is_next(r, ' '))
        r->at++;
}

static struct step *add_step(struct reader *r, enum step_kind kind)
{
    if (r->n_steps == KUBE_STEPS_MAX)
        return NULL;
    struct step *step = &r->steps[r->n_steps++];
    *step = (struct step){.kind = kind};
    return step;
}

/* Reads up to one of `stops` or the end. Names contain no zero byte. */
static bool read_word(struct reader *r, const char *stops, struct word *out)
{
    out->at = r->n_words;
    while (r->at < r->text.len && strchr(stops, r->text.data[r->at]) == NULL) {
        if (r->text.data[r->at] == '\\' && ++r->at == r->text.len)
            return false;
        r->words[r->n_words++] = r->text.data[r->at++]; /* no longer than the text, whose length was checked */
    }
    out->len = r->n_words - out->at;
    return r->at == r->text.len || r->text.data[r->at] != '\0';
}

static bool read_quoted(struct reader *r, struct word *out)
{
    const char quote[] = {r->text.data[r->at++], '\0'};
    return read_word(r, quote, out) && skip_literal(r, quote);
}

static bool is_quote(const struct reader *r)
{
    return is_next(r, '\'') || is_next(r, '"');
}

static bool read_field(struct reader *r, const char *stops)
{
    struct step *step = add_step(r, STEP_FIELD);
    return step != NULL && read_word(r, stops, &step->word) && step->word.len > 0;
}

static bool read_quoted_field(struct reader *r)
{
    struct step *step = add_step(r, STEP_FIELD);
    return step != NULL && is_quote(r) && read_quoted(r, &step->word) && skip_literal(r, "]");
}

static bool read_integer(struct reader *r, int64_t *out)
{
    bool negative = skip_literal(r, "-");
    size_t begin = r->at;
    int64_t value = 0;
    for (; r->at < r->text.len && r->text.data[r->at] >= '0' && r->text.data[r->at] <= '9'; r->at++) {
        if (r->at - begin == DIGITS_MAX)
            return false;
        value = value * 10 + (r->text.data[r->at] - '0');
    }
    *out = negative ? -value : value;
    return r->at > begin;
}

/* "[2]", "[-1]", "[1:3]", "[:2]", "[-1:]" */
static bool read_slice(struct reader *r)
{
    struct step *step = add_step(r, STEP_SLICE);
    if (step == NULL)
        return false;
    if (!is_next(r, ':') && !read_integer(r, &step->slice.from))
        return false;
    if (!skip_literal(r, ":")) {
        step->slice.to = step->slice.from + 1;
        step->slice.to_end = step->slice.from == -1;
    } else if (is_next(r, ']'))
        step->slice.to_end = true;
    else if (!read_integer(r, &step->slice.to))
        return false;
    return skip_literal(r, "]");
}

static bool read_number(struct belfry_bytes text, double *out)
{
    char digits[NUMBER_MAX], *end;
    if (text.len == 0 || text.len >= sizeof(digits) || strchr("-0123456789", text.data[0]) == NULL)
        return false;
    memcpy(digits, text.data, text.len);
    digits[text.len] = '\0';
    *out = strtod(digits, &end);
    return end == digits + text.len;
}

static bool read_literal(struct reader *r, struct step *step)
{
    if (is_quote(r))
        return read_quoted(r, &step->word);
    if (!read_word(r, " )", &step->word))
        return false;
    struct belfry_bytes text = belfry_bytes_of(r->words + step->word.at, step->word.len);
    step->filter.literal = LITERAL_NUMBER;
    if (belfry_bytes_equal(text, belfry_bytes_str("true")))
        step->filter.literal = LITERAL_TRUE;
    else if (belfry_bytes_equal(text, belfry_bytes_str("false")))
        step->filter.literal = LITERAL_FALSE;
    else if (belfry_bytes_equal(text, belfry_bytes_str("null")))
        step->filter.literal = LITERAL_NULL;
    else
        return read_number(text, &step->filter.number);
    return true;
}

static bool read_inner(struct reader *r)
{
    if (!skip_literal(r, "@"))
        return false;
    while (is_next(r, '.') || is_next(r, '[')) {
        if (!(skip_literal(r, ".") ? read_field(r, " .[]=!<>&|)@{}$,") : skip_literal(r, "[") && read_quoted_field(r)))
            return false;
    }
    return true;
}

/* Reads a filter, after "[?(". */
static bool read_filter(struct reader *r)
{
    struct step *step = add_step(r, STEP_FILTER);
    skip_blanks(r);
    if (step == NULL || !read_inner(r))
        return false;
    step->filter.n_inner = (size_t)(&r->steps[r->n_steps] - step) - 1;
    skip_blanks(r);
    step->filter.op = FILTER_EXISTS;
    if (!is_next(r, ')')) {
        step->filter.op = is_next(r, '=') ? FILTER_EQUAL : FILTER_UNEQUAL;
        if (!skip_literal(r, step->filter.op == FILTER_EQUAL ? "==" : "!="))
            return false;
        skip_blanks(r);
        if (!read_literal(r, step))
            return false;
        skip_blanks(r);
    }
    return skip_literal(r, ")]");
}

static bool read_bracket(struct reader *r)
{
    if (skip_literal(r, "*]"))
        return add_step(r, STEP_ALL) != NULL;
    if (skip_literal(r, "?("))
        return read_filter(r);
    return is_quote(r) ? read_quoted_field(r) : read_slice(r);
}

static bool read_step(struct reader *r)
{
    bool dot = skip_literal(r, ".");
    if (skip_literal(r, "["))
        return read_bracket(r);
    if (dot && skip_literal(r, "*"))
        return add_step(r, STEP_ALL) != NULL;
    return dot && read_field(r, " .[],$@{}");
}

enum belfry_err belfry_kube_path_read(struct belfry_bytes text, struct belfry_kube_path **out)
{
    struct reader r = {.text = text};
    if (text.len == 0 || text.len > KUBE_PATH_MAX)
        return BELFRY_ERR_INVALID;
    if (text.len == 1 && text.data[0] == '.')
        r.at = 1;
    while (r.at < text.len) {
        if (!read_step(&r))
            return BELFRY_ERR_INVALID;
    }
    struct belfry_kube_path *path = malloc(sizeof(*path) + r.n_steps * sizeof(*r.steps) + r.n_words);
    if (path == NULL)
        return BELFRY_ERR_NOMEM;
    path->n_steps = r.n_steps;
    path->words = (char *)&path->steps[r.n_steps];
    memcpy(path->steps, r.steps, r.n_steps * sizeof(*r.steps));
    memcpy(path->words, r.words, r.n_words);
    *out = path;
    return BELFRY_OK;
}

void belfry_kube_path_free(struct belfry_kube_path *path)
{
    free(path);
}

bool belfry_kube_path_is_simple(const struct belfry_kube_path *path)
{
    for (size_t i = 0; i < path->n_steps; i++) {
        if (path->steps[i].kind != STEP_FIELD)
            return false;
    }
    return path->n_steps > 0;
}

/* ---- following ---- */

static yyjson_val *get_field(const struct belfry_kube_path *path, const struct step *step, yyjson_val *from)
{
    return yyjson_obj_getn(from, path->words + step->word.at, step->word.len);
}

static bool is_number(yyjson_val *value, double *out)
{
    *out = yyjson_get_num(value);
    if (yyjson_is_raw(value))
        return read_number(belfry_bytes_of(yyjson_get_raw(value), yyjson_get_len(value)), out);
    return yyjson_is_num(value);
}

static bool is_literal(const struct belfry_kube_path *path, const struct step *step, yyjson_val *value)
{
    double number;
    switch (step->filter.literal) {
    case LITERAL_TEXT:
        return yyjson_equals_strn(value, path->words + step->word.at, step->word.len);
    case LITERAL_NUMBER:
        return is_number(value, &number) && !(number < step->filter.number) && !(number > step->filter.number);
    case LITERAL_TRUE:
        return yyjson_is_true(value);
    case LITERAL_FALSE:
        return yyjson_is_false(value);
    case LITERAL_NULL:
        return yyjson_is_null(value);
    }
    return false;
}

/* Compares an element with the literal. A missing value is neither equal nor unequal, as in kubectl. */
static bool filter_passes(const struct belfry_kube_path *path, const struct step *step, yyjson_val *element)
{
    for (size_t i = 1; i <= step->filter.n_inner; i++)
        element = get_field(path, step + i, element);
    if (element == NULL)
        return false;
    return step->filter.op == FILTER_EXISTS || is_literal(path, step, element) == (step->filter.op == FILTER_EQUAL);
}

/* The purpose of a walk: find one value, or call `fn` for each. */
struct visit {
    size_t left;                               /* values to skip */
    void (*fn)(yyjson_val *value, void *user); /* NULL: the walk ends with the value */
    void *user;
};

static yyjson_val *visit_value(struct visit *visit, yyjson_val *value)
{
    if (visit->fn == NULL)
        return visit->left-- == 0 ? value : NULL;
    visit->fn(value, visit->user);
    return NULL;
}

static yyjson_val *path_walk(const struct belfry_kube_path *path, size_t at, yyjson_val *from, struct visit *visit);

static int64_t from_end(int64_t index, size_t len)
{
    int64_t n = (int64_t)len, i = index < 0 ? index + n : index;
    return i < 0 ? 0 : i > n ? n : i;
}

static yyjson_val *path_walk_slice(const struct belfry_kube_path *path, size_t at, yyjson_val *from,
                                   struct visit *visit)
{
    const struct step *step = &path->steps[at];
    size_t len = yyjson_arr_size(from), i = 0;
    int64_t n = (int64_t)len;
    bool missing = step->slice.to == step->slice.from + 1 && step->slice.from < -n; /* [-5] of three: not [0] */
    int64_t begin = missing ? n : from_end(step->slice.from, len);
    int64_t end = step->slice.to_end ? n : from_end(step->slice.to, len);
    yyjson_arr_iter iter = yyjson_arr_iter_with(from);
    for (yyjson_val *value; (value = yyjson_arr_iter_next(&iter)) != NULL; i++) {
        yyjson_val *found = (int64_t)i >= begin && (int64_t)i < end ? path_walk(path, at + 1, value, visit) : NULL;
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* Walks all elements, or those that pass the filter at `at`; `next` is the step after it. */
static yyjson_val *path_walk_all(const struct belfry_kube_path *path, size_t at, size_t next, yyjson_val *from,
                                 struct visit *visit)
{
    const struct step *filter = path->steps[at].kind == STEP_FILTER ? &path->steps[at] : NULL;
    yyjson_val *value, *found = NULL;
    yyjson_arr_iter items = yyjson_arr_iter_with(from);
    while (found == NULL && (value = yyjson_arr_iter_next(&items)) != NULL) {
        if (filter == NULL || filter_passes(path, filter, value))
            found = path_walk(path, next, value, visit);
    }
    yyjson_obj_iter members = yyjson_obj_iter_with(from);
    while (found == NULL && (value = yyjson_obj_iter_get_val(yyjson_obj_iter_next(&members))) != NULL) {
        if (filter == NULL || filter_passes(path, filter, value))
            found = path_walk(path, next, value, visit);
    }
    return found;
}

/* Recurses once per step, so at most KUBE_STEPS_MAX deep. */
static yyjson_val *path_walk(const struct belfry_kube_path *path, size_t at, yyjson_val *from, struct visit *visit)
{
    if (from == NULL)
        return NULL;
    if (at == path->n_steps)
        return visit_value(visit, from);
    const struct step *step = &path->steps[at];
    switch (step->kind) {
    case STEP_FIELD:
        return path_walk(path, at + 1, get_field(path, step, from), visit);
    case STEP_SLICE:
        return path_walk_slice(path, at, from, visit);
    case STEP_ALL:
        return path_walk_all(path, at, at + 1, from, visit);
    case STEP_FILTER:
        return path_walk_all(path, at, at + 1 + step->filter.n_inner, from, visit);
    }
    return NULL;
}

yyjson_val *belfry_kube_path_get(const struct belfry_kube_path *path, yyjson_val *root, size_t index)
{
    return path_walk(path, 0, root, &(struct visit){.left = index});
}

void belfry_kube_path_each(const struct belfry_kube_path *path, yyjson_val *root,
                           void (*fn)(yyjson_val *value, void *user), void *user)
{
    path_walk(path, 0, root, &(struct visit){.fn = fn, .user = user});
}
