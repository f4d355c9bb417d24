/* src/serve/reads/read_rights_test.c: rights that the test gives, in the place of permit.c. */
#include "serve/reads/read_rights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

struct permit_question {
    permit_fn fn;
    void *user;
    bool is_open;
};

static struct permit_question questions[READ_RIGHTS_MAX + 1];
static size_t n_questions, limit, n_verdicts;
static char keys[READ_RIGHTS_MAX + 2];
static enum permit_verdict last;

enum belfry_err permit_ask(struct permit *permit, const struct identity *who, struct belfry_bytes key,
                           struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                           struct permit_question **out)
{
    (void)permit, (void)who, (void)range_end, (void)now_ms;
    if (n_questions == limit)
        return BELFRY_ERR_LIMIT;
    keys[n_questions] = key.data[0];
    *out = &questions[n_questions++];
    **out = (struct permit_question){.fn = fn, .user = user, .is_open = true};
    return BELFRY_OK;
}

void permit_cancel(struct permit_question *question)
{
    assert_true(question->is_open);
    question->is_open = false;
}

static void answer(size_t i, enum permit_verdict verdict)
{
    assert_true(questions[i].is_open);
    questions[i].is_open = false;
    questions[i].fn(verdict, "reason", questions[i].user);
}

static size_t n_open(void)
{
    size_t n = 0;
    for (size_t i = 0; i < n_questions; i++)
        n += questions[i].is_open;
    return n;
}

static void on_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    assert_string_equal(reason, "reason");
    assert_ptr_equal(user, keys);
    n_verdicts++;
    last = verdict;
}

static int setup(void **state)
{
    (void)state;
    n_questions = n_verdicts = 0;
    limit = READ_RIGHTS_MAX + 1;
    memset(keys, 0, sizeof(keys));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return refuse_held() == 0 ? 0 : -1;
}

/* A Txn that reads these keys, each of one byte. */
static enum belfry_err ask(const char *wanted, struct read_rights **out)
{
    static uint8_t message[7 * (READ_RIGHTS_MAX + 8)];
    struct read_request request;
    size_t n = strlen(wanted);
    for (size_t i = 0; i < n; i++)
        memcpy(message + 7 * i, (const uint8_t[]){0x12, 5, 0x0a, 3, 0x0a, 1, (uint8_t)wanted[i]}, 7);
    assert_int_equal(read_request_read(READ_REQUEST_TXN, belfry_bytes_of(message, 7 * n), &request),
                     READ_REQUEST_FITTING);
    return read_rights_ask(NULL, NULL, &request, 0, on_verdict, keys, out);
}

static void each_range_is_asked_about_once_and_all_must_be_granted(void **state)
{
    (void)state;
    struct read_rights *rights;
    assert_int_equal(ask("abacb", &rights), BELFRY_OK);
    assert_string_equal(keys, "abc");
    answer(1, PERMIT_GRANTED);
    answer(2, PERMIT_GRANTED);
    assert_int_equal(n_verdicts, 0);
    answer(0, PERMIT_GRANTED);
    assert_true(n_verdicts == 1 && last == PERMIT_GRANTED);
}

static void the_first_that_is_not_granted_decides(void **state)
{
    (void)state;
    struct read_rights *rights;
    const enum permit_verdict verdicts[] = {PERMIT_REFUSED, PERMIT_UNAVAILABLE};
    for (size_t i = 0; i < 2; i++) {
        setup(NULL);
        assert_int_equal(ask("abc", &rights), BELFRY_OK);
        answer(0, PERMIT_GRANTED);
        answer(1, verdicts[i]);
        assert_true(n_verdicts == 1 && last == verdicts[i]);
        assert_int_equal(n_open(), 0);
        setup(NULL);
        assert_int_equal(ask("a", &rights), BELFRY_OK);
        answer(0, verdicts[i]);
        assert_true(n_verdicts == 1 && last == verdicts[i]);
    }
}

static void what_is_cancelled_is_not_answered(void **state)
{
    (void)state;
    struct read_rights *rights;
    assert_int_equal(ask("abc", &rights), BELFRY_OK);
    answer(1, PERMIT_GRANTED);
    read_rights_cancel(rights);
    read_rights_cancel(NULL);
    assert_true(n_open() == 0 && n_verdicts == 0);
}

static void ranges_are_bounded(void **state)
{
    (void)state;
    struct read_rights *rights;
    char wanted[READ_RIGHTS_MAX + 2] = "";
    assert_int_equal(ask(wanted, &rights), BELFRY_ERR_LIMIT); /* none */
    for (size_t i = 0; i <= READ_RIGHTS_MAX; i++)
        wanted[i] = (char)('A' + i);
    assert_int_equal(ask(wanted, &rights), BELFRY_ERR_LIMIT);
    assert_int_equal(n_questions, 0);
    wanted[READ_RIGHTS_MAX] = 'A';
    assert_int_equal(ask(wanted, &rights), BELFRY_OK);
    assert_int_equal(n_questions, READ_RIGHTS_MAX);
    read_rights_cancel(rights);
    setup(NULL);
    limit = 2;
    assert_int_equal(ask("abc", &rights), BELFRY_ERR_LIMIT);
    assert_int_equal(n_open(), 0);
}

static void refused_memory_is_an_error(void **state)
{
    (void)state;
    struct read_rights *rights;
    refuse_begin(0);
    enum belfry_err err = ask("abc", &rights);
    assert_true(refuse_end());
    assert_int_equal(err, BELFRY_ERR_NOMEM);
    assert_int_equal(n_questions, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(each_range_is_asked_about_once_and_all_must_be_granted),
        T(the_first_that_is_not_granted_decides),
        T(what_is_cancelled_is_not_answered),
        T(ranges_are_bounded),
        T(refused_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
