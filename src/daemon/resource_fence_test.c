/* src/daemon/resource_fence_test.c: the suite plays both mailboxes and ingest. */
#include "daemon/resource_fence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

#define NUMBER 7

static struct {
    uv_loop_t loop;
    struct fence *fence;
    struct mail *to_ingest, *to_worker; /* what waits there; NULL: nothing */
    struct resource_proof *proof;       /* that ingest was asked for */
    size_t n;                           /* how many wait for it */
    bool is_unknown;                    /* the resource is not followed */
    size_t held;
} bed;

static void post_to_ingest(struct mail *mail, void *user)
{
    assert_ptr_equal(user, &bed);
    assert_null(bed.to_ingest);
    bed.to_ingest = mail;
}

static void post_to_worker(struct mail *mail, void *user)
{
    assert_ptr_equal(user, &bed);
    assert_null(bed.to_worker);
    bed.to_worker = mail;
}

static bool prove(void *owner, size_t number, struct resource_proof *proof)
{
    assert_ptr_equal(owner, &bed);
    assert_int_equal(number, NUMBER);
    bed.proof = proof;
    bed.n = proof->n;
    return !bed.is_unknown;
}

static enum belfry_err make_fence(void)
{
    struct resource_fence_opts opts = {.loop = &bed.loop,
                                       .number = NUMBER,
                                       .to_ingest = post_to_ingest,
                                       .to_worker = post_to_worker,
                                       .prove = prove,
                                       .user = &bed};
    return resource_fence_create(&opts, &bed.fence);
}

static int setup(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.held = refuse_held();
    return uv_loop_init(&bed.loop) == 0 && make_fence() == BELFRY_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    fence_destroy(bed.fence);
    uv_run(&bed.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&bed.loop), 0);
    return refuse_held() == bed.held ? 0 : -1;
}

/* The mail is opened; an owner of NULL: its thread has ended. */
static void open_mail(struct mail **mail, void *owner)
{
    struct mail *opened = *mail;
    assert_non_null(opened);
    *mail = NULL;
    opened->open(opened, owner);
}

/* Ingest answers the question that is away. */
static void answer(int64_t rv)
{
    open_mail(&bed.to_ingest, &bed);
    bed.proof->fn(bed.proof, rv);
    open_mail(&bed.to_worker, &bed);
}

struct asker {
    struct fence_wait *wait;
    unsigned n;
    enum belfry_err err;
    int64_t rv;
    struct asker *cancels; /* when it is answered */
    bool destroys;
};

static void on_answer(enum belfry_err err, int64_t rv, void *user)
{
    struct asker *asker = user;
    asker->n++;
    asker->err = err;
    asker->rv = rv;
    if (asker->cancels != NULL)
        fence_cancel(asker->cancels->wait);
    if (asker->destroys) {
        fence_destroy(bed.fence);
        bed.fence = NULL;
    }
}

static enum belfry_err ask_for(struct asker *asker)
{
    return fence_ask(bed.fence, NULL, belfry_bytes_str(""), on_answer, asker, &asker->wait);
}

static void ask(struct asker *asker)
{
    assert_int_equal(ask_for(asker), BELFRY_OK);
    assert_int_equal(asker->n, 0);
}

static struct fence_stats counted(void)
{
    struct fence_stats stats;
    fence_stats(bed.fence, &stats);
    return stats;
}

/* ---- tests ---- */

static void those_who_wait_share_a_question(void **state)
{
    (void)state;
    struct asker first = {0}, later[100] = {{0}};
    ask(&first);
    for (unsigned i = 0; i < 100; i++)
        ask(&later[i]); /* the mail is on its way */
    answer(42);
    assert_true(first.n == 1 && first.err == BELFRY_OK && first.rv == 42);
    assert_int_equal(later[99].n, 0);
    assert_int_equal(bed.n, 1);
    answer(43);
    assert_int_equal(bed.n, 100);
    for (unsigned i = 0; i < 100; i++)
        assert_true(later[i].n == 1 && later[i].err == BELFRY_OK && later[i].rv == 43);
    assert_null(bed.to_ingest);
    assert_true(counted().asked == 101 && counted().questions == 2 && counted().failed == 0);
}

static void question_without_a_proof_fails(void **state)
{
    (void)state;
    struct asker asker = {0}, again = {0};
    ask(&asker);
    answer(0);
    assert_true(asker.n == 1 && asker.err == BELFRY_ERR_UNAVAILABLE);
    bed.is_unknown = true;
    ask(&again);
    open_mail(&bed.to_ingest, &bed);
    open_mail(&bed.to_worker, &bed);
    assert_true(again.n == 1 && again.err == BELFRY_ERR_UNAVAILABLE);
    assert_int_equal(counted().failed, 2);
}

static void wait_that_is_cancelled_is_not_answered(void **state)
{
    (void)state;
    struct asker askers[3] = {{0}};
    for (unsigned i = 0; i < 3; i++)
        ask(&askers[i]);
    fence_cancel(askers[0].wait); /* its question goes on, and then nobody waits for it */
    askers[1].cancels = &askers[2];
    answer(42);
    assert_true(askers[0].n == 0 && askers[1].n == 0);
    answer(43);
    assert_true(askers[1].n == 1 && askers[2].n == 0);
}

static void answer_may_destroy_the_fence(void **state)
{
    (void)state;
    struct asker askers[4] = {{0}};
    ask(&askers[0]);
    answer(1);
    ask(&askers[1]);
    ask(&askers[2]);
    askers[1].destroys = true;
    answer(42);
    assert_true(askers[1].n == 1 && askers[2].n == 0);
    open_mail(&bed.to_ingest, &bed); /* the next question was already sent */
    bed.proof->fn(bed.proof, 43);
    open_mail(&bed.to_worker, &bed);
    assert_int_equal(askers[2].n, 0);
}

static void mail_of_a_fence_that_is_gone_frees_it(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct asker asker = {0};
        ask(&asker);
        fence_destroy(bed.fence);
        bed.fence = NULL;
        uv_run(&bed.loop, UV_RUN_DEFAULT);
        assert_true(refuse_held() > bed.held);
        if (i == 0) {
            open_mail(&bed.to_ingest, NULL); /* ingest has ended */
        } else {
            open_mail(&bed.to_ingest, &bed);
            bed.proof->fn(bed.proof, 42);
            open_mail(&bed.to_worker, NULL); /* the worker has ended */
        }
        assert_int_equal(asker.n, 0);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

static void waits_are_bounded(void **state)
{
    (void)state;
    static struct asker askers[FENCE_WAITING];
    struct asker more = {0};
    memset(askers, 0, sizeof(askers));
    for (unsigned i = 0; i < FENCE_WAITING; i++)
        ask(&askers[i]);
    assert_int_equal(ask_for(&more), BELFRY_ERR_LIMIT);
    answer(42);
    answer(42);
    assert_int_equal(ask_for(&more), BELFRY_OK);
    answer(43);
    assert_int_equal(more.n, 1);
}

static void without_memory_nothing_is_sent(void **state)
{
    (void)state;
    struct asker asker = {0};
    refuse_begin(0);
    assert_int_equal(ask_for(&asker), BELFRY_ERR_NOMEM);
    assert_true(refuse_end());
    assert_null(bed.to_ingest);
    struct fence *fence = bed.fence;
    refuse_begin(0);
    assert_int_equal(make_fence(), BELFRY_ERR_NOMEM);
    assert_true(refuse_end());
    bed.fence = fence;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(those_who_wait_share_a_question, setup, teardown),
        cmocka_unit_test_setup_teardown(question_without_a_proof_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(wait_that_is_cancelled_is_not_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(answer_may_destroy_the_fence, setup, teardown),
        cmocka_unit_test_setup_teardown(mail_of_a_fence_that_is_gone_frees_it, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_nothing_is_sent, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
