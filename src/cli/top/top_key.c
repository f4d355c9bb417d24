/* src/cli/top/top_key.c */
#include "cli/top/top_key.h"

#include <string.h>

#define ESCAPE '\033'

/* "\033[5~" as its parts: what stands between [ and the last byte, and that byte. */
static int key_of(const char *parameters, size_t len, char last)
{
    static const struct {
        char last;
        const char *parameter;
        enum top_key key;
    } rows[] = {
        {'A', "", TOP_KEY_UP},       {'B', "", TOP_KEY_DOWN},       {'H', "", TOP_KEY_HOME},  {'F', "", TOP_KEY_END},
        {'~', "5", TOP_KEY_PAGE_UP}, {'~', "6", TOP_KEY_PAGE_DOWN}, {'~', "1", TOP_KEY_HOME}, {'~', "7", TOP_KEY_HOME},
        {'~', "4", TOP_KEY_END},     {'~', "8", TOP_KEY_END},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].last == last && strlen(rows[i].parameter) == len && memcmp(rows[i].parameter, parameters, len) == 0)
            return rows[i].key;
    return TOP_KEY_OTHER;
}

/* \033[ and \033O begin a sequence that ends with a byte from @ to ~ (ECMA-48, section 5.4). */
int top_key_read(const char *bytes, size_t len, size_t *used)
{
    *used = 1;
    if (bytes[0] != ESCAPE)
        return (unsigned char)bytes[0];
    if (len < 2 || (bytes[1] != '[' && bytes[1] != 'O'))
        return TOP_KEY_ESCAPE;
    for (size_t at = 2; at < len; at++)
        if (bytes[at] >= '@' && bytes[at] <= '~') {
            *used = at + 1;
            return key_of(bytes + 2, at - 2, bytes[at]);
        }
    *used = len; /* the rest did not come: there is no such key */
    return TOP_KEY_OTHER;
}
