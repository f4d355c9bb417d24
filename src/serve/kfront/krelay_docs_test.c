/* src/serve/kfront/krelay_docs_test.c */
#include "serve/kfront/krelay_docs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/fakeexchange.h"
#include "support/refuse.h"

static struct krelay_docs docs;

static int setup(void **state)
{
    (void)state;
    krelay_docs_init(&docs);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    krelay_docs_fini(&docs);
    return docs.bytes == 0 && refuse_held() == 0 ? 0 : -1;
}

static struct krelay_doc *draft(const char *key, const char *etag)
{
    struct belfry_http_field fields[] = {{belfry_bytes_str("content-type"), belfry_bytes_str("application/json")},
                                         {belfry_bytes_str("audit-id"), belfry_bytes_str("7")},
                                         {belfry_bytes_str("content-length"), belfry_bytes_str("3")},
                                         {belfry_bytes_str("etag"), belfry_bytes_str(etag)}};
    return krelay_docs_draft(&docs, belfry_bytes_str(key), fields, 4);
}

static void keep(const char *key, const char *etag, const char *body)
{
    struct krelay_doc *doc = draft(key, etag);
    assert_non_null(doc);
    assert_true(krelay_doc_add(doc, belfry_bytes_str(body)));
    krelay_doc_keep(doc);
}

static void a_copy_is_found_by_its_key_once_it_is_whole(void **state)
{
    (void)state;
    struct krelay_doc *doc = draft("a", "\"1\"");
    assert_non_null(doc);
    assert_null(krelay_docs_find(&docs, belfry_bytes_str("a")));
    assert_null(draft("a", "\"1\"")); /* one copy at a time */
    assert_true(krelay_doc_add(doc, belfry_bytes_str("bo")));
    assert_true(krelay_doc_add(doc, belfry_bytes_str("dy")));
    krelay_doc_keep(doc);
    doc = krelay_docs_find(&docs, belfry_bytes_str("a"));
    assert_true(belfry_bytes_equal(krelay_doc_body(doc), belfry_bytes_str("body")));
    assert_true(belfry_bytes_equal(krelay_doc_etag(doc), belfry_bytes_str("\"1\"")));
    size_t n;
    const struct belfry_http_field *fields = krelay_doc_fields(doc, &n);
    assert_int_equal(n, 2); /* neither the length nor what is of one answer only */
    assert_true(belfry_bytes_equal(fields[0].name, belfry_bytes_str("content-type")));
    krelay_doc_unref(doc);
    assert_null(krelay_docs_find(&docs, belfry_bytes_str("b")));
    assert_null(draft("b", "")); /* without an ETag nothing can be asked */
}

static void a_newer_copy_replaces_the_old_one_which_its_reader_still_has(void **state)
{
    (void)state;
    keep("a", "\"1\"", "old");
    struct krelay_doc *old = krelay_docs_find(&docs, belfry_bytes_str("a"));
    keep("a", "\"2\"", "new");
    struct krelay_doc *new = krelay_docs_find(&docs, belfry_bytes_str("a"));
    assert_int_equal(docs.n, 1);
    assert_true(belfry_bytes_equal(krelay_doc_body(old), belfry_bytes_str("old")));
    assert_true(belfry_bytes_equal(krelay_doc_body(new), belfry_bytes_str("new")));
    size_t both = docs.bytes;
    krelay_doc_unref(old);
    assert_true(docs.bytes < both);
    krelay_doc_unref(new);
    krelay_doc_drop(draft("c", "\"3\""));
    assert_null(krelay_docs_find(&docs, belfry_bytes_str("c")));
}

static char much[1024 * 1024];

/* Copies a document of so many MiB; false: it was not copied. */
static bool copy(const char *key, size_t n_mib)
{
    struct krelay_doc *doc = draft(key, "\"1\"");
    if (doc == NULL)
        return false;
    for (size_t i = 0; i < n_mib; i++) {
        if (!krelay_doc_add(doc, belfry_bytes_of(much, sizeof(much)))) {
            krelay_doc_drop(doc);
            return false;
        }
    }
    krelay_doc_keep(doc);
    return true;
}

static bool knows(const char *key)
{
    struct krelay_doc *doc = krelay_docs_find(&docs, belfry_bytes_str(key));
    krelay_doc_unref(doc);
    return doc != NULL;
}

static void the_copy_that_was_not_used_for_longest_makes_room(void **state)
{
    (void)state;
    char key[8];
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof(key), "%d", i);
        assert_true(copy(key, 4));
        assert_true(docs.bytes <= KRELAY_DOCS_BYTES);
        assert_true(knows("0"));
    }
    assert_false(knows("1"));
    assert_true(knows("7"));
    assert_false(copy("large", KRELAY_DOC_BYTES / sizeof(much) + 1));
}

static void copies_that_are_read_count_and_then_nothing_is_copied(void **state)
{
    (void)state;
    struct krelay_doc *read[16];
    size_t n = 0;
    char key[8];
    for (; n < 16; n++) {
        snprintf(key, sizeof(key), "%zu", n);
        if (!copy(key, 8))
            break;
        read[n] = krelay_docs_find(&docs, belfry_bytes_str(key));
    }
    assert_in_range(n, 1, 4);
    assert_true(docs.bytes <= KRELAY_DOCS_BYTES);
    while (n > 0)
        krelay_doc_unref(read[--n]);
    assert_true(copy("again", 8));
}

static void there_is_a_limit_on_copies(void **state)
{
    (void)state;
    char key[16];
    for (int i = 0; i < KRELAY_DOCS + 10; i++) {
        snprintf(key, sizeof(key), "%d", i);
        keep(key, "\"1\"", "x");
    }
    assert_int_equal(docs.n, KRELAY_DOCS);
    assert_false(knows("9"));
    assert_true(knows("10"));
}

static void a_key_is_of_path_and_forms_and_is_bounded(void **state)
{
    (void)state;
    struct fakeexchange_head head;
    struct belfry_buf key;
    static char path[KRELAY_KEY_BYTES + 2];
    belfry_buf_init(&key);
    fakeexchange_head(&head, "GET", "/apis?a", (const char *const[]){"accept: x", "accept-encoding: gzip", NULL});
    assert_int_equal(krelay_docs_key(&head.head, &key), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&key), belfry_bytes_str("/apis?a\nx\ngzip\n")));
    memset(path, 'a', sizeof(path) - 1);
    fakeexchange_head(&head, "GET", path, (const char *const[]){NULL});
    belfry_buf_clear(&key);
    assert_int_equal(krelay_docs_key(&head.head, &key), BELFRY_ERR_TOO_LARGE);
    belfry_buf_fini(&key);
}

static void a_clients_own_copy_is_known_by_its_etag(void **state)
{
    (void)state;
    const struct {
        const char *list, *etag;
        bool matches;
    } rows[] = {{"\"ab\"", "\"ab\"", true}, {"W/\"ab\"", "\"ab\"", true}, {"\"x\", \"ab\"", "W/\"ab\"", true},
                {"*", "\"ab\"", true},      {"\"abc\"", "\"ab\"", false}, {"\"ab", "\"ab\"", false},
                {"", "\"ab\"", false},      {"ab", "ab", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(krelay_doc_matches(belfry_bytes_str(rows[i].list), belfry_bytes_str(rows[i].etag)),
                         rows[i].matches);
}

static enum belfry_err scenario(void)
{
    krelay_docs_init(&docs);
    struct krelay_doc *doc = draft("a", "\"1\"");
    bool added = doc != NULL && krelay_doc_add(doc, belfry_bytes_str("body"));
    if (added)
        krelay_doc_keep(doc);
    else
        krelay_doc_drop(doc);
    krelay_docs_fini(&docs);
    return added ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_is_found_by_its_key_once_it_is_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newer_copy_replaces_the_old_one_which_its_reader_still_has, setup, teardown),
        cmocka_unit_test_setup_teardown(the_copy_that_was_not_used_for_longest_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_that_are_read_count_and_then_nothing_is_copied, setup, teardown),
        cmocka_unit_test_setup_teardown(there_is_a_limit_on_copies, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_is_of_path_and_forms_and_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clients_own_copy_is_known_by_its_etag, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_nothing_leaks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
