/* src/serve/etcd/watch_claims_test.c: claims with a permit that the test plays. */
#include "serve/etcd/watch_claims.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

/* ---- rights, as the test says ---- */

#define QUESTIONS 4

struct permit_question {
    permit_fn fn;
    void *user;
    bool canceled;
};

struct permit {
    struct permit_question questions[QUESTIONS];
    size_t n;
    enum belfry_err err;
};

enum belfry_err permit_hold(struct permit *permit, struct permit_party *party, struct belfry_bytes key,
                            struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                            struct permit_question **out)
{
    (void)party;
    (void)key;
    (void)range_end;
    (void)now_ms;
    assert_true(permit->n < QUESTIONS);
    if (permit->err != BELFRY_OK)
        return permit->err;
    *out = &permit->questions[permit->n++];
    **out = (struct permit_question){.fn = fn, .user = user};
    return BELFRY_OK;
}

void permit_cancel(struct permit_question *question)
{
    question->canceled = true;
}

/* ---- the bed ---- */

static struct {
    struct permit permit;
    struct permit_party party;
    struct watch_claims claims;
    struct watch_claim *told;
    enum permit_verdict verdict;
} bed;

static void on_claim(struct watch_claim *claim, enum permit_verdict verdict, const char *reason)
{
    (void)reason;
    bed.told = claim;
    bed.verdict = verdict;
}

static void bed_open(void)
{
    bed.permit = (struct permit){0};
    bed.told = NULL;
    watch_claims_init(&bed.claims, &bed.permit, &bed.party, on_claim);
}

static struct watch_claim *ask(void)
{
    struct watch_claim *out = NULL;
    assert_int_equal(watch_claims_ask(&bed.claims, belfry_bytes_str("a"), belfry_bytes_str("b"), 1, &out), BELFRY_OK);
    return out;
}

static void a_claim_is_found_while_its_watch_runs(void **state)
{
    (void)state;
    bed_open();
    struct watch_waiting waiting = {0};
    struct watch_claim *first = ask(), *second = ask();
    first->waiting = &waiting;
    waiting.claim = first;
    assert_null(watch_claims_find(&bed.claims, 0));
    bed.permit.questions[0].fn(PERMIT_HELD, "", bed.permit.questions[0].user);
    assert_ptr_equal(bed.told, first);
    watch_claim_join(first, 7);
    assert_null(waiting.claim);
    watch_claim_join(second, -3);
    assert_ptr_equal(watch_claims_find(&bed.claims, 7), first);
    assert_ptr_equal(watch_claims_find(&bed.claims, -3), second);
    watch_claim_end(first);
    assert_null(watch_claims_find(&bed.claims, 7));
    assert_true(bed.permit.questions[0].canceled && !bed.permit.questions[1].canceled);
    watch_claims_fini(&bed.claims);
    assert_true(bed.permit.questions[1].canceled);
}

static void a_question_that_was_answered_is_not_cancelled(void **state)
{
    (void)state;
    bed_open();
    struct watch_waiting waiting = {0};
    waiting.claim = ask();
    waiting.claim->waiting = &waiting;
    bed.permit.questions[0].fn(PERMIT_REFUSED, PERMIT_DENIED, bed.permit.questions[0].user);
    assert_int_equal(bed.verdict, PERMIT_REFUSED);
    watch_claim_end(waiting.claim);
    assert_null(waiting.claim);
    assert_false(bed.permit.questions[0].canceled);
}

static void unproven_claims_are_counted_until_they_are_proven_or_end(void **state)
{
    (void)state;
    bed_open();
    struct watch_claim *first = ask(), *second = ask();
    watch_claim_join_unproven(first, 1);
    watch_claim_join_unproven(second, 2);
    assert_int_equal(bed.claims.n_unproven, 2);
    watch_claim_prove(first);
    watch_claim_prove(first);
    assert_int_equal(bed.claims.n_unproven, 1);
    watch_claim_end(second);
    assert_int_equal(bed.claims.n_unproven, 0);
    watch_claims_fini(&bed.claims);
}

static enum belfry_err scenario(void)
{
    bed_open();
    struct watch_claim *claim;
    enum belfry_err err = watch_claims_ask(&bed.claims, belfry_bytes_str("a"), belfry_bytes_str(""), 1, &claim);
    if (err == BELFRY_OK)
        watch_claim_join(claim, 1);
    bed.permit.err = BELFRY_ERR_NOMEM;
    struct watch_claim *none;
    if (err == BELFRY_OK)
        assert_int_equal(watch_claims_ask(&bed.claims, belfry_bytes_str("a"), belfry_bytes_str(""), 1, &none),
                         BELFRY_ERR_NOMEM);
    watch_claims_fini(&bed.claims);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_is_found_while_its_watch_runs),
        cmocka_unit_test(a_question_that_was_answered_is_not_cancelled),
        cmocka_unit_test(unproven_claims_are_counted_until_they_are_proven_or_end),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
