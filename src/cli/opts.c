/* src/cli/opts.c */
#include "cli/opts.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KEEPALIVE_MS_MIN 10000 /* servers end connections that ping faster; etcdctl's 2s is raised in the same way */

static void lower_case(const char *text, char room[OPTS_VALUE])
{
    size_t i = 0;
    for (; text[i] != '\0' && i < OPTS_VALUE - 1; i++)
        room[i] = (char)tolower((unsigned char)text[i]);
    room[i] = '\0';
}

const char *opts_value(const struct flag_row *row, const char *text, char room[OPTS_VALUE])
{
    int64_t ms = 0;
    switch (row->kind) {
    case KIND_BOOL:
        return strchr("1tT", text[0]) != NULL ? "true" : "false";
    case KIND_HEX:
        snprintf(room, OPTS_VALUE, "%lld", strtoll(text, NULL, 16));
        return room;
    case KIND_DURATION:
        if (flags_parse_duration(text, &ms) != BELFRY_OK)
            return text;
        if (row->id == FLAG_KEEPALIVE_TIME && ms < KEEPALIVE_MS_MIN)
            ms = KEEPALIVE_MS_MIN;
        snprintf(room, OPTS_VALUE, "%" PRId64 "ms", ms);
        return room;
    case KIND_CHOICE:
        lower_case(text, room);
        return strcmp(room, "modify") == 0 ? "mod" : room;
    case KIND_TEXT:
    case KIND_LIST:
    case KIND_NUMBER:
    case KIND_SIZE:
    case KIND_REFUSED:
        break;
    }
    return text;
}

static int set(struct belfry_opts **out, const struct flag_row *row, const char *text)
{
    char room[OPTS_VALUE];
    if (row->id == FLAG_CONSISTENCY) /* the one flag whose library option has another name */
        return belfry_opts_set(out, "serializable", strcasecmp(text, "s") == 0 ? "true" : "false");
    return row->library == NULL ? BELFRY_OK : belfry_opts_set(out, row->library, opts_value(row, text, room));
}

enum belfry_err opts_fill(const struct flags *flags, enum flag_taker taker, struct belfry_opts **out, char *why)
{
    for (size_t i = 0; i < n_flag_rows; i++) {
        const struct flag_row *row = &flag_rows[i];
        bool ours = row->taker == taker && (row->commands & ON(flags->command)) != 0;
        if (!ours || !flags_given(flags, row->id))
            continue;
        int err = set(out, row, flags->value[row->id]);
        if (err == BELFRY_ERR_INVALID)
            snprintf(why, FLAGS_WHY, "%s", belfry_opts_why(*out));
        if (err != BELFRY_OK)
            return (enum belfry_err)err;
    }
    return BELFRY_OK;
}
