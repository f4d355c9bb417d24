/* src/serve/rights/review_subject_test.c */
#include "serve/rights/review_subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

#define TEXT(text)   belfry_bytes_of("" text, sizeof(text) - 1)
#define N_TEXTS      9
#define LENGTH_BYTES 4

static const struct review_subject pods = {.verb = {"watch", 5},
                                           .group = {"", 0},
                                           .version = {"v1", 2},
                                           .resource = {"pods", 4},
                                           .subresource = {NULL, 0},
                                           .namespace = {"team-a", 6},
                                           .name = {"p", 1},
                                           .label_selector = {"app in (a,b)", 12},
                                           .field_selector = {"spec.nodeName=n1", 16}};

/* The i-th text of a subject. */
static struct belfry_bytes *text_of(struct review_subject *subject, size_t i)
{
    struct belfry_bytes *texts[N_TEXTS] = {&subject->verb,     &subject->group,          &subject->version,
                                           &subject->resource, &subject->subresource,    &subject->namespace,
                                           &subject->name,     &subject->label_selector, &subject->field_selector};
    return texts[i];
}

static struct belfry_buf written(const struct review_subject *subject)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(review_subject_write(subject, &buf), BELFRY_OK);
    return buf;
}

static void subject_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct belfry_buf buf = written(&pods);
    struct review_subject read;
    assert_int_equal(review_subject_read(belfry_buf_bytes(&buf), &read), BELFRY_OK);
    assert_true(belfry_bytes_equal(read.verb, pods.verb));
    assert_true(belfry_bytes_equal(read.group, pods.group));
    assert_true(belfry_bytes_equal(read.version, pods.version));
    assert_true(belfry_bytes_equal(read.resource, pods.resource));
    assert_int_equal(read.subresource.len, 0);
    assert_true(belfry_bytes_equal(read.namespace, pods.namespace));
    assert_true(belfry_bytes_equal(read.name, pods.name));
    assert_true(belfry_bytes_equal(read.label_selector, pods.label_selector));
    assert_true(belfry_bytes_equal(read.field_selector, pods.field_selector));
    belfry_buf_fini(&buf);
}

static void texts_may_have_any_byte(void **state)
{
    (void)state;
    const struct belfry_bytes odd = TEXT("\0\xff\"\n\0\0\0\1x");
    for (size_t i = 0; i < N_TEXTS; i++) {
        struct review_subject subject = pods, read;
        *text_of(&subject, i) = odd;
        struct belfry_buf buf = written(&subject), again;
        assert_int_equal(review_subject_read(belfry_buf_bytes(&buf), &read), BELFRY_OK);
        again = written(&read);
        assert_true(belfry_bytes_equal(belfry_buf_bytes(&buf), belfry_buf_bytes(&again)));
        belfry_buf_fini(&buf);
        belfry_buf_fini(&again);
    }
}

/* Without lengths, "a" + "bc" would be "ab" + "c", and one client would have the right of another. */
static void different_subjects_have_different_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < N_TEXTS; i++) {
        struct review_subject one = pods, other = pods;
        *text_of(&one, i) = TEXT("a");
        *text_of(&one, i + 1) = TEXT("bc");
        *text_of(&other, i) = TEXT("ab");
        *text_of(&other, i + 1) = TEXT("c");
        struct belfry_buf a = written(&one), b = written(&other);
        assert_false(belfry_bytes_equal(belfry_buf_bytes(&a), belfry_buf_bytes(&b)));
        belfry_buf_fini(&a);
        belfry_buf_fini(&b);
    }
}

static void cut_or_longer_bytes_are_no_subject(void **state)
{
    (void)state;
    struct belfry_buf buf = written(&pods);
    struct belfry_bytes whole = belfry_buf_bytes(&buf);
    struct review_subject read = {.verb = TEXT("kept")};
    for (size_t len = 0; len < whole.len; len++)
        assert_int_equal(review_subject_read(belfry_bytes_of(whole.data, len), &read), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    assert_int_equal(review_subject_read(belfry_buf_bytes(&buf), &read), BELFRY_ERR_INVALID);
    assert_true(belfry_bytes_equal(read.verb, TEXT("kept")));
    belfry_buf_fini(&buf);
}

static void length_beyond_the_end_is_refused(void **state)
{
    (void)state;
    struct review_subject read;
    char bytes[N_TEXTS * LENGTH_BYTES] = {0};
    assert_int_equal(review_subject_read(belfry_bytes_of(bytes, sizeof(bytes)), &read), BELFRY_OK);
    memset(bytes + sizeof(bytes) - LENGTH_BYTES, 0xff, LENGTH_BYTES);
    assert_int_equal(review_subject_read(belfry_bytes_of(bytes, sizeof(bytes)), &read), BELFRY_ERR_INVALID);
}

static enum belfry_err scenario(void)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = review_subject_write(&pods, &buf);
    belfry_buf_fini(&buf);
    return err;
}

static void every_refused_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subject_is_read_as_it_was_written),
        cmocka_unit_test(texts_may_have_any_byte),
        cmocka_unit_test(different_subjects_have_different_bytes),
        cmocka_unit_test(cut_or_longer_bytes_are_no_subject),
        cmocka_unit_test(length_beyond_the_end_is_refused),
        cmocka_unit_test(every_refused_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
