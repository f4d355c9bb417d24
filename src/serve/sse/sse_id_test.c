/* src/serve/sse/sse_id_test.c */
#include "serve/sse/sse_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ids_are_read_as_they_are_written(void **state)
{
    (void)state;
    static const char *const texts[] = {"0", "1", "5312-9a3f01bc", "9223372036854775807-00000000", "7-ffffffff"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sse_id id;
        char text[SSE_ID_TEXT];
        assert_true(sse_id_read(belfry_bytes_str(texts[i]), &id));
        sse_id_write(&id, text);
        assert_string_equal(text, texts[i]);
    }
}

static void anything_else_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "-",
                                        "a",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1-",
                                        "1-9a3f01b",
                                        "1-9a3f01bcd",
                                        "1-9a3f01bg",
                                        "1_9a3f01bc",
                                        "1.5",
                                        "1-9a3f-1",
                                        "0x10",
                                        "1\n",
                                        "1-9a3f01bc ",
                                        "9223372036854775808",
                                        "99999999999999999999"};
    struct sse_id id;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(sse_id_read(belfry_bytes_str(texts[i]), &id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_read_as_they_are_written),
        cmocka_unit_test(anything_else_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
