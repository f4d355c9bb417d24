/* src/cli/out/human_size_test.c */
#include "cli/out/human_size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void sizes_are_rounded_as_etcdctl_rounds_them(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},       {9, "9 B"},          {999, "999 B"},      {1000, "1.0 kB"},     {1550, "1.6 kB"},
                 {20480, "20 kB"}, {82854982, "83 MB"}, {9949999, "9.9 MB"}, {INT64_MAX, "9.2 EB"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[HUMAN_SIZE];
        human_size(cases[i].bytes, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_are_rounded_as_etcdctl_rounds_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
