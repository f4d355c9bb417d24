/* src/cli/top/top_key_test.c */
#include "cli/top/top_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void keys_are_told_by_their_bytes(void **state)
{
    static const struct {
        const char *bytes;
        int key;
        size_t used;
    } rows[] = {
        {"q", 'q', 1},
        {"qs", 'q', 1},
        {"\xc3\xa9", 0xc3, 1},
        {"\033[A", TOP_KEY_UP, 3},
        {"\033OA", TOP_KEY_UP, 3},
        {"\033[Bq", TOP_KEY_DOWN, 3},
        {"\033[5~", TOP_KEY_PAGE_UP, 4},
        {"\033[6~", TOP_KEY_PAGE_DOWN, 4},
        {"\033[H", TOP_KEY_HOME, 3},
        {"\033[4~", TOP_KEY_END, 4},
        {"\033[1;5A", TOP_KEY_OTHER, 6},
        {"\033[24~x", TOP_KEY_OTHER, 5},
        {"\033[5", TOP_KEY_OTHER, 3},
        {"\033[", TOP_KEY_OTHER, 2},
        {"\033", TOP_KEY_ESCAPE, 1},
        {"\033q", TOP_KEY_ESCAPE, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t used = 0;
        int key = top_key_read(rows[i].bytes, strlen(rows[i].bytes), &used);
        if (key != rows[i].key || used != rows[i].used)
            fail_msg("row %zu: key %d of %zu bytes", i, key, used);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_told_by_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
