/* src/serve/admin/page_files_test.c */
#include "serve/admin/page_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool has(const struct page_file *file, const char *text)
{
    return memmem(file->bytes.data, file->bytes.len, text, strlen(text)) != NULL;
}

static void the_files_are_found_by_their_paths_and_are_small(void **state)
{
    (void)state;
    const struct page_file *files;
    size_t n = page_files(&files), bytes = 0;
    assert_int_equal(n, 3);
    assert_string_equal(files[0].path, "/");
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(page_files_find(belfry_bytes_str(files[i].path)), &files[i]);
        assert_true(files[i].bytes.len > 1000);
        bytes += files[i].bytes.len;
    }
    assert_true(bytes <= PAGE_FILES_MAX);
    assert_true(has(&files[0], "<!doctype html>") && has(&files[0], "</html>\n")); /* whole */
    assert_null(page_files_find(belfry_bytes_str("/page")));
    assert_null(page_files_find(belfry_bytes_str("")));
}

/* The policy would stop what these words begin; without them the page works under it. */
static void nothing_outside_is_named_and_no_text_becomes_html(void **state)
{
    (void)state;
    static const char *const forbidden[] = {"//cdn",          "src=\"http", "href=\"http", "url(http",
                                            "@import",        "innerHTML",  "outerHTML",   "insertAdjacentHTML",
                                            "document.write", "eval(",      "onclick=",    "style=\""};
    const struct page_file *files;
    size_t n = page_files(&files);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof(forbidden) / sizeof(forbidden[0]); k++) {
            if (has(&files[i], forbidden[k]))
                fail_msg("%s has %s", files[i].path, forbidden[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_files_are_found_by_their_paths_and_are_small),
        cmocka_unit_test(nothing_outside_is_named_and_no_text_becomes_html),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
