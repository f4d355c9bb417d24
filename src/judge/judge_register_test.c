/* src/judge/judge_register_test.c: histories by hand, histories of a model, and small histories beside a judge that
 * tries every order. */
#include "judge/judge_register.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/refuse.h"

#define MAX_STEPS 100000
#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))

#define PUT(value, call, end)                                                                                          \
    {                                                                                                                  \
        JUDGE_PUT, value, 0, call, end                                                                                 \
    }
#define PUT_AT(value, rev, call, end)                                                                                  \
    {                                                                                                                  \
        JUDGE_PUT, value, rev, call, end                                                                               \
    }
#define DEL(call, end)                                                                                                 \
    {                                                                                                                  \
        JUDGE_DELETE, JUDGE_ABSENT, 0, call, end                                                                       \
    }
#define DEL_AT(rev, call, end)                                                                                         \
    {                                                                                                                  \
        JUDGE_DELETE, JUDGE_ABSENT, rev, call, end                                                                     \
    }
#define GET(value, call, end)                                                                                          \
    {                                                                                                                  \
        JUDGE_GET, value, 0, call, end                                                                                 \
    }
#define GET_AT(value, rev, call, end)                                                                                  \
    {                                                                                                                  \
        JUDGE_GET, value, rev, call, end                                                                               \
    }

static struct judge_register_result judged(const struct judge_op *ops, size_t n)
{
    struct judge_register_result result;
    assert_int_equal(judge_register(ops, n, MAX_STEPS, &result), BELFRY_OK);
    assert_int_not_equal(result.verdict, JUDGE_UNDECIDED);
    return result;
}

#define assert_accepted(ops) assert_int_equal(judged(ops, COUNT(ops)).verdict, JUDGE_LINEARIZABLE)
#define assert_refused(ops, who)                                                                                       \
    do {                                                                                                               \
        struct judge_register_result r_ = judged(ops, COUNT(ops));                                                     \
        assert_int_equal(r_.verdict, JUDGE_NOT_LINEARIZABLE);                                                          \
        assert_int_equal(r_.culprit, who);                                                                             \
    } while (0)

/* ---- by hand ---- */

static void answers_in_order_are_accepted(void **state)
{
    (void)state;
    const struct judge_op ops[] = {GET(0, 1, 2), PUT(1, 3, 4),   GET(1, 5, 6),   PUT(2, 7, 8),  GET(2, 9, 10),
                                   DEL(11, 12),  GET(0, 13, 14), PUT(3, 15, 16), GET(3, 17, 18)};
    assert_accepted(ops);
    assert_int_equal(judged(NULL, 0).verdict, JUDGE_LINEARIZABLE);
}

static void a_read_beside_a_write_may_see_either_value(void **state)
{
    (void)state;
    const struct judge_op old[] = {PUT(1, 1, 2), PUT(2, 3, 9), GET(1, 4, 5)};
    const struct judge_op new[] = {PUT(1, 1, 2), PUT(2, 3, 9), GET(2, 4, 5)};
    const struct judge_op both[] = {PUT(1, 1, 2), PUT(2, 3, 9), GET(1, 4, 5), GET(2, 6, 7)};
    assert_accepted(old);
    assert_accepted(new);
    assert_accepted(both);
}

static void a_stale_read_is_refused(void **state)
{
    (void)state;
    const struct judge_op ops[] = {PUT(1, 1, 2), PUT(2, 3, 4), GET(1, 5, 6)};
    const struct judge_op deleted[] = {PUT(1, 1, 2), DEL(3, 4), GET(1, 5, 6)};
    assert_refused(ops, 1); /* the second write cannot come while the read is still due */
    assert_refused(deleted, 1);
}

static void a_value_that_goes_back_while_its_write_is_under_way_is_refused(void **state)
{
    (void)state;
    const struct judge_op ops[] = {PUT(1, 1, 2), PUT(2, 3, 20), GET(2, 4, 5), GET(1, 6, 7)};
    assert_refused(ops, 1);
}

static void a_lost_write_is_refused(void **state)
{
    (void)state;
    const struct judge_op ops[] = {PUT(1, 1, 2), GET(0, 3, 4)};
    const struct judge_op undeleted[] = {PUT(1, 1, 2), DEL(3, 4), DEL(5, 6)};
    assert_refused(ops, 1);
    assert_refused(undeleted, 2);
}

static void a_read_of_the_future_is_refused(void **state)
{
    (void)state;
    const struct judge_op ops[] = {GET(1, 1, 2), PUT(1, 3, 4)};
    const struct judge_op never[] = {PUT(1, 1, 2), GET(2, 3, 4)};
    assert_refused(ops, 0);
    assert_string_equal(judged(ops, COUNT(ops)).why, "the value was read before it was written");
    assert_refused(never, 1);
}

static void two_orders_of_the_same_writes_are_refused(void **state)
{
    (void)state;
    const struct judge_op one[] = {PUT(1, 1, 20), PUT(2, 1, 20), GET(1, 2, 3), GET(2, 4, 5), GET(2, 6, 7)};
    const struct judge_op two[] = {PUT(1, 1, 20), PUT(2, 1, 20), GET(1, 2, 3), GET(2, 4, 5), GET(1, 6, 7)};
    assert_accepted(one);
    assert_int_equal(judged(two, COUNT(two)).verdict, JUDGE_NOT_LINEARIZABLE);
}

static void a_write_without_answer_may_come_late_or_never(void **state)
{
    (void)state;
    const struct judge_op never[] = {PUT(1, 1, 2), PUT(2, 3, JUDGE_OPEN), GET(1, 5, 6), GET(1, 7, 8)};
    const struct judge_op late[] = {PUT(1, 1, 2), PUT(2, 3, JUDGE_OPEN), GET(1, 5, 6), GET(2, 7, 8)};
    const struct judge_op back[] = {PUT(1, 1, 2), PUT(2, 3, JUDGE_OPEN), GET(2, 5, 6), GET(1, 7, 8)};
    assert_accepted(never);
    assert_accepted(late);
    assert_int_equal(judged(back, COUNT(back)).verdict, JUDGE_NOT_LINEARIZABLE);
}

static void a_delete_without_answer_explains_one_disappearance(void **state)
{
    (void)state;
    const struct judge_op once[] = {PUT(1, 1, 2), DEL(3, JUDGE_OPEN), GET(1, 4, 5), GET(0, 6, 7)};
    const struct judge_op twice[] = {PUT(1, 1, 2), DEL(3, JUDGE_OPEN), GET(0, 6, 7), PUT(2, 8, 9), GET(0, 10, 11)};
    const struct judge_op early[] = {PUT(1, 1, 2), GET(0, 3, 4), DEL(5, JUDGE_OPEN)};
    assert_accepted(once);
    assert_int_equal(judged(twice, COUNT(twice)).verdict, JUDGE_NOT_LINEARIZABLE);
    assert_refused(early, 1);
}

static void a_put_without_answer_explains_one_delete(void **state)
{
    (void)state;
    const struct judge_op once[] = {PUT(1, 1, JUDGE_OPEN), DEL(3, 4)};
    const struct judge_op twice[] = {PUT(1, 1, JUDGE_OPEN), DEL(3, 4), DEL(5, 6)};
    const struct judge_op early[] = {DEL(3, 4), PUT(1, 5, JUDGE_OPEN)};
    assert_accepted(once);
    assert_refused(twice, 2);
    assert_refused(early, 0);
}

/* The search first meets put 1, put 2, a delete, and the other delete after put 9. With the deletes between the puts,
 * put 9 is left for the last delete. */
static void an_open_write_that_was_used_too_early_is_used_again(void **state)
{
    (void)state;
    const struct judge_op ops[] = {PUT(9, 0, JUDGE_OPEN), PUT(1, 1, 10), PUT(2, 2, 10), DEL(3, 10), DEL(4, 10),
                                   PUT(3, 11, 12),        DEL(13, 14),   DEL(15, 16)};
    const struct judge_op more[] = {
        PUT(9, 0, JUDGE_OPEN), PUT(1, 1, 10), PUT(2, 2, 10), DEL(3, 10), DEL(4, 10), DEL(5, 10), DEL(15, 16)};
    assert_accepted(ops);
    assert_int_equal(judged(more, COUNT(more)).verdict, JUDGE_NOT_LINEARIZABLE);
}

static void writes_have_the_order_of_their_revisions(void **state)
{
    (void)state;
    const struct judge_op right[] = {PUT_AT(1, 5, 1, 9), PUT_AT(2, 6, 1, 9), GET(1, 2, 3), GET(2, 4, 5)};
    const struct judge_op wrong[] = {PUT_AT(1, 6, 1, 9), PUT_AT(2, 5, 1, 9), GET(1, 2, 3), GET(2, 4, 5)};
    const struct judge_op told[] = {PUT(1, 1, JUDGE_OPEN), DEL_AT(5, 1, 9), GET_AT(1, 6, 2, 3), GET(0, 10, 11)};
    assert_accepted(right);
    assert_int_equal(judged(wrong, COUNT(wrong)).verdict, JUDGE_NOT_LINEARIZABLE);
    assert_int_equal(judged(told, COUNT(told)).verdict, JUDGE_NOT_LINEARIZABLE); /* the read tells the put's revision */
}

static void a_value_has_one_mod_revision(void **state)
{
    (void)state;
    const struct judge_op right[] = {PUT_AT(1, 5, 1, 2), GET_AT(1, 5, 3, 4)};
    const struct judge_op wrong[] = {PUT_AT(1, 5, 1, 2), GET_AT(1, 6, 3, 4)};
    const struct judge_op reads[] = {PUT(1, 1, JUDGE_OPEN), GET_AT(1, 5, 3, 4), GET_AT(1, 6, 5, 6)};
    assert_accepted(right);
    assert_refused(wrong, 1);
    assert_refused(reads, 2);
}

static void a_history_that_means_nothing_is_invalid(void **state)
{
    (void)state;
    const struct judge_op wrong[][2] = {
        {PUT(1, 1, 2), PUT(1, 3, 4)},        {PUT(1, 1, 2), PUT(0, 3, 4)},
        {PUT(1, 1, 2), GET(1, 4, 3)},        {PUT(1, 1, 2), GET(1, 3, JUDGE_OPEN)},
        {PUT(1, 1, 2), GET_AT(0, 5, 3, 4)},  {PUT(1, 1, 2), {JUDGE_DELETE, 1, 0, 3, 4}},
        {PUT(1, 1, 2), PUT_AT(2, -1, 3, 4)}, {PUT(1, 1, 2), PUT_AT(2, 5, 3, JUDGE_OPEN)}};
    struct judge_register_result result;
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_equal(judge_register(wrong[i], 2, MAX_STEPS, &result), BELFRY_ERR_INVALID);
}

/* ---- beside a judge that tries every order ---- */

#define SMALL 7

struct brute {
    const struct judge_op *ops;
    size_t n;
    int64_t revs[SMALL]; /* of writes; of a put as far as any operation tells */
};

/* Can the operations that are not in `done` follow, when the key has `value` and the largest revision was `rev`? */
static bool brute_follows(const struct brute *b, unsigned done, uint64_t value, int64_t rev)
{
    bool all = true;
    for (size_t i = 0; i < b->n; i++)
        all &= (done >> i & 1) || b->ops[i].end_ns == JUDGE_OPEN;
    if (all)
        return true;
    for (size_t i = 0; i < b->n; i++) {
        const struct judge_op *op = &b->ops[i];
        bool may_be_next = !(done >> i & 1);
        for (size_t k = 0; k < b->n; k++)
            may_be_next &= (done >> k & 1) || b->ops[k].end_ns >= op->call_ns;
        bool is_write = op->kind != JUDGE_GET;
        bool fits = op->kind == JUDGE_PUT || (op->kind == JUDGE_GET && op->value == value) ||
                    (op->kind == JUDGE_DELETE && (value != JUDGE_ABSENT || op->end_ns == JUDGE_OPEN));
        fits &= !is_write || b->revs[i] == 0 || b->revs[i] > rev;
        int64_t next_rev = is_write && b->revs[i] != 0 ? b->revs[i] : rev;
        if (may_be_next && fits && brute_follows(b, done | 1U << i, is_write ? op->value : value, next_rev))
            return true;
    }
    return false;
}

static bool brute_accepts(const struct judge_op *ops, size_t n)
{
    struct brute b = {.ops = ops, .n = n};
    for (size_t i = 0; i < n; i++) {
        b.revs[i] = ops[i].mod_rev;
        for (size_t k = 0; k < n && ops[i].kind == JUDGE_PUT; k++) {
            if (ops[k].kind != JUDGE_GET || ops[k].value != ops[i].value || ops[k].mod_rev == 0)
                continue;
            if (b.revs[i] != 0 && b.revs[i] != ops[k].mod_rev)
                return false;
            b.revs[i] = ops[k].mod_rev;
        }
    }
    return brute_follows(&b, 0, JUDGE_ABSENT, 0);
}

static size_t draw_small(struct belfry_rng *rng, struct judge_op *ops)
{
    size_t n = 2 + belfry_rng_below(rng, SMALL - 1);
    uint64_t n_values = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t call = (int64_t)belfry_rng_below(rng, 12), end = call + (int64_t)belfry_rng_below(rng, 8);
        int64_t rev = belfry_rng_below(rng, 3) == 0 ? 1 + (int64_t)belfry_rng_below(rng, 4) : 0;
        int64_t write_end = belfry_rng_below(rng, 3) == 0 ? JUDGE_OPEN : end;
        switch (belfry_rng_below(rng, 4)) {
        case 0:
            ops[i] = (struct judge_op)PUT_AT(++n_values, write_end == JUDGE_OPEN ? 0 : rev, call, write_end);
            break;
        case 1:
            ops[i] = (struct judge_op)DEL_AT(write_end == JUDGE_OPEN ? 0 : rev, call, write_end);
            break;
        default:
            ops[i] = (struct judge_op)GET_AT(belfry_rng_below(rng, 3), rev, call, end);
            ops[i].mod_rev = ops[i].value == JUDGE_ABSENT ? 0 : rev;
        }
    }
    return n;
}

static void small_histories_are_judged_as_by_trying_every_order(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL), n_accepted = 0, n_rounds = 100000;
    struct belfry_rng rng = {seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t round = 0; round < n_rounds; round++) {
        struct judge_op ops[SMALL];
        size_t n = draw_small(&rng, ops);
        bool expected = brute_accepts(ops, n);
        if ((judged(ops, n).verdict == JUDGE_LINEARIZABLE) != expected) {
            for (size_t i = 0; i < n; i++)
                print_message("kind %d value %llu rev %lld [%lld, %lld]\n", ops[i].kind,
                              (unsigned long long)ops[i].value, (long long)ops[i].mod_rev, (long long)ops[i].call_ns,
                              (long long)ops[i].end_ns);
            fail_msg("round %llu: it should be %s", (unsigned long long)round, expected ? "accepted" : "refused");
        }
        n_accepted += expected;
    }
    assert_in_range(n_accepted, n_rounds / 20, n_rounds - n_rounds / 20); /* else the test shows little */
}

/* ---- histories of a model ---- */

#define CLIENTS 24
#define LARGE   20000

struct model {
    struct belfry_rng rng;
    struct judge_op ops[LARGE];
    size_t n;
    uint64_t value, n_values;
    int64_t rev;
    /* a write that was given no answer and comes later, or never */
    int64_t late_ns[CLIENTS];
    size_t late[CLIENTS];
};

static void model_apply(struct model *m, struct judge_op *op, bool has_answer)
{
    bool is_change = op->kind == JUDGE_PUT || (op->kind == JUDGE_DELETE && m->value != JUDGE_ABSENT);
    if (is_change)
        m->rev++;
    if (op->kind == JUDGE_DELETE && !is_change && has_answer)
        op->kind = JUDGE_GET; /* it found nothing */
    if (op->kind == JUDGE_GET)
        *op = (struct judge_op){JUDGE_GET, m->value, 0, op->call_ns, op->end_ns};
    else if (has_answer)
        op->mod_rev = m->rev;
    if (is_change)
        m->value = op->value;
}

/* Operations happen one after another, at m->n * 10; calls and ends lie around that. */
static void model_run(struct model *m, size_t n, unsigned open_in)
{
    for (m->n = 0; m->n < n; m->n++) {
        int64_t now = (int64_t)m->n * 10;
        size_t client = belfry_rng_below(&m->rng, CLIENTS);
        struct judge_op *op = &m->ops[m->n];
        *op = (struct judge_op){JUDGE_GET, JUDGE_ABSENT, 0, now - (int64_t)belfry_rng_below(&m->rng, 60),
                                now + (int64_t)belfry_rng_below(&m->rng, 60)};
        uint64_t dice = belfry_rng_below(&m->rng, 10);
        if (dice < 2) {
            op->kind = JUDGE_PUT;
            op->value = ++m->n_values;
        } else if (dice == 2) {
            op->kind = JUDGE_DELETE;
        }
        if (op->kind == JUDGE_GET || belfry_rng_below(&m->rng, open_in) != 0) {
            model_apply(m, op, true);
        } else {
            op->end_ns = JUDGE_OPEN;
            m->late[client] = m->n;
            m->late_ns[client] = now + (int64_t)belfry_rng_below(&m->rng, 2000);
        }
        for (size_t i = 0; i < CLIENTS; i++) {
            if (m->late_ns[i] == 0 || m->late_ns[i] > now)
                continue;
            m->late_ns[i] = 0;
            model_apply(m, &m->ops[m->late[i]], false);
        }
    }
}

static struct model *model_create(void)
{
    static uint64_t n_models;
    struct model *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    m->rng.state = (uint64_t)time(NULL) + n_models++ * 1000003;
    print_message("seed %llu\n", (unsigned long long)m->rng.state);
    return m;
}

static void histories_of_a_model_are_accepted_in_bounded_steps(void **state)
{
    (void)state;
    for (unsigned open_in = 3; open_in < 1000; open_in *= 5) { /* one of 3, 15, 75, 375 writes has no answer */
        struct model *m = model_create();
        model_run(m, LARGE, open_in);
        struct judge_register_result result = judged(m->ops, m->n);
        assert_int_equal(result.verdict, JUDGE_LINEARIZABLE);
        assert_in_range(result.n_steps, 1, 2 * LARGE);
        free(m);
    }
}

/* A read's answer becomes one that was surely overwritten before it: its write, then another, then the read. */
static bool plant_stale(struct model *m, size_t read)
{
    const struct judge_op *newer = NULL;
    for (size_t i = read; i-- > 0;) {
        const struct judge_op *op = &m->ops[i];
        if (op->kind != JUDGE_PUT || op->end_ns == JUDGE_OPEN)
            continue;
        if (newer == NULL && op->end_ns < m->ops[read].call_ns) {
            newer = op;
        } else if (newer != NULL && op->end_ns < newer->call_ns) {
            m->ops[read].value = op->value;
            return true;
        }
    }
    return false;
}

/* It becomes a value that is written only after the read has ended. */
static bool plant_future(struct model *m, size_t read)
{
    for (size_t i = read + 1; i < m->n; i++) {
        if (m->ops[i].kind == JUDGE_PUT && m->ops[i].call_ns > m->ops[read].end_ns) {
            m->ops[read].value = m->ops[i].value;
            return true;
        }
    }
    return false;
}

/* The write that it saw becomes one that was never made. */
static bool plant_lost(struct model *m, size_t read)
{
    for (size_t i = 0; i < m->n && m->ops[read].value != JUDGE_ABSENT; i++) {
        if (m->ops[i].kind == JUDGE_PUT && m->ops[i].value == m->ops[read].value) {
            m->ops[i].value = UINT64_MAX;
            return true;
        }
    }
    return false;
}

static void one_planted_fault_in_a_history_of_a_model_is_refused(void **state)
{
    (void)state;
    static bool (*const plants[])(struct model *, size_t) = {plant_stale, plant_future, plant_lost};
    enum { N = 2000, EACH = 20 };
    for (size_t plant = 0; plant < COUNT(plants); plant++) {
        for (size_t planted = 0; planted < EACH;) {
            struct model *m = model_create();
            model_run(m, N, 15);
            size_t read = belfry_rng_below(&m->rng, N);
            if (m->ops[read].kind == JUDGE_GET && plants[plant](m, read)) {
                planted++;
                struct judge_register_result result = judged(m->ops, m->n);
                assert_int_equal(result.verdict, JUDGE_NOT_LINEARIZABLE);
                assert_true(result.why[0] != '\0');
            }
            free(m);
        }
    }
}

/* Many writes at once, and a contradiction after them: every order of them has to be looked at. */
static void the_search_ends_after_the_given_steps(void **state)
{
    (void)state;
    enum { WRITES = 24 };
    struct judge_op ops[WRITES + 2];
    for (size_t i = 0; i < WRITES; i++)
        ops[i] = (struct judge_op)PUT(i + 1, 1, 10);
    ops[WRITES] = (struct judge_op)GET(1, 11, 12);
    ops[WRITES + 1] = (struct judge_op)GET(2, 13, 14);
    struct judge_register_result result;
    assert_int_equal(judge_register(ops, COUNT(ops), 1000, &result), BELFRY_OK);
    assert_int_equal(result.verdict, JUDGE_UNDECIDED);
    assert_int_equal(result.n_steps, 1000);
    assert_int_equal(judge_register(ops, 10, MAX_STEPS, &result), BELFRY_OK);
    assert_int_equal(result.verdict, JUDGE_LINEARIZABLE);
}

static enum belfry_err scenario(void)
{
    struct judge_op ops[100];
    for (size_t i = 0; i < COUNT(ops); i++) /* so many that the memory of configurations grows */
        ops[i] = (struct judge_op)PUT(i + 1, (int64_t)i * 2, (int64_t)i * 2 + 1);
    struct judge_register_result result;
    return judge_register(ops, COUNT(ops), MAX_STEPS, &result);
}

static void without_memory_nothing_is_judged(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_in_order_are_accepted),
        cmocka_unit_test(a_read_beside_a_write_may_see_either_value),
        cmocka_unit_test(a_stale_read_is_refused),
        cmocka_unit_test(a_value_that_goes_back_while_its_write_is_under_way_is_refused),
        cmocka_unit_test(a_lost_write_is_refused),
        cmocka_unit_test(a_read_of_the_future_is_refused),
        cmocka_unit_test(two_orders_of_the_same_writes_are_refused),
        cmocka_unit_test(a_write_without_answer_may_come_late_or_never),
        cmocka_unit_test(a_delete_without_answer_explains_one_disappearance),
        cmocka_unit_test(a_put_without_answer_explains_one_delete),
        cmocka_unit_test(an_open_write_that_was_used_too_early_is_used_again),
        cmocka_unit_test(writes_have_the_order_of_their_revisions),
        cmocka_unit_test(a_value_has_one_mod_revision),
        cmocka_unit_test(a_history_that_means_nothing_is_invalid),
        cmocka_unit_test(small_histories_are_judged_as_by_trying_every_order),
        cmocka_unit_test(histories_of_a_model_are_accepted_in_bounded_steps),
        cmocka_unit_test(one_planted_fault_in_a_history_of_a_model_is_refused),
        cmocka_unit_test(the_search_ends_after_the_given_steps),
        cmocka_unit_test(without_memory_nothing_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
