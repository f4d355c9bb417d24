/* src/serve/json/json_values.c */
#include "serve/json/json_values.h"

void json_values_init(struct json_values *values)
{
    *values = (struct json_values){.looked = 0};
    belfry_buf_init(&values->bytes);
}

void json_values_fini(struct json_values *values)
{
    belfry_buf_fini(&values->bytes);
}

enum belfry_err json_values_add(struct json_values *values, struct belfry_bytes bytes)
{
    return belfry_buf_append(&values->bytes, bytes.data, bytes.len);
}

void json_values_end(struct json_values *values)
{
    values->ended = true;
}

static void drop_space(struct json_values *values)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&values->bytes);
    size_t n = 0;
    while (n < bytes.len && belfry_nest_is_space(bytes.data[n]))
        n++;
    belfry_buf_take(&values->bytes, n);
}

static bool is_nested(char c)
{
    return c == '{' || c == '[' || c == '"';
}

/* True: all of an object, an array or a string has come. */
static bool look_nested(struct json_values *values, struct belfry_bytes bytes)
{
    if (values->looked == 0 || !belfry_nest_back(&values->nest, 0))
        values->looked += belfry_nest_skip(&values->nest, 0,
                                           belfry_bytes_of(bytes.data + values->looked, bytes.len - values->looked));
    return belfry_nest_back(&values->nest, 0);
}

/* The same for a number, a word, or a byte that is the beginning of nothing. */
static bool look_word(struct json_values *values, struct belfry_bytes bytes)
{
    while (values->looked < bytes.len && belfry_nest_is_word(bytes.data[values->looked]))
        values->looked++;
    if (values->looked == 0)
        values->looked = 1;
    return values->looked < bytes.len;
}

bool json_values_first(struct json_values *values, struct belfry_bytes *out)
{
    if (values->looked == 0)
        drop_space(values);
    struct belfry_bytes bytes = belfry_buf_bytes(&values->bytes);
    if (bytes.len == 0)
        return false;
    bool is_whole = is_nested(bytes.data[0]) ? look_nested(values, bytes) : look_word(values, bytes);
    if (!is_whole && !values->ended)
        return false;
    *out = belfry_bytes_of(bytes.data, values->looked);
    return true;
}

void json_values_take(struct json_values *values)
{
    belfry_buf_take(&values->bytes, values->looked);
    if (belfry_buf_len(&values->bytes) == 0)
        belfry_buf_fini(&values->bytes);
    values->looked = 0;
    values->nest = (struct belfry_nest){0};
}
