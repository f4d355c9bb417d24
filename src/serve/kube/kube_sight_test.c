/* src/serve/kube/kube_sight_test.c: the test is upstream: it knows which prefixes a token may read. */
#include "serve/kube/kube_sight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/refuse.h"

#define QUESTIONS 64

/* ---- permit, as the test says ---- */

struct permit_question {
    permit_fn fn; /* NULL: answered or canceled */
    void *user;
    char key[64], end[64], token[32];
};

struct permit {
    struct permit_question questions[QUESTIONS];
    size_t n, n_open, most_open;
    enum belfry_err err; /* of the next question */
};

static void copy(char *to, size_t room, struct belfry_bytes bytes)
{
    snprintf(to, room, "%.*s", (int)bytes.len, bytes.len == 0 ? "" : bytes.data);
}

enum belfry_err permit_ask(struct permit *permit, const struct identity *who, struct belfry_bytes key,
                           struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                           struct permit_question **out)
{
    (void)now_ms;
    assert_true(permit->n < QUESTIONS);
    if (permit->err != BELFRY_OK)
        return permit->err;
    struct permit_question *question = &permit->questions[permit->n++];
    *question = (struct permit_question){.fn = fn, .user = user};
    copy(question->key, sizeof(question->key), key);
    copy(question->end, sizeof(question->end), range_end);
    copy(question->token, sizeof(question->token), who->text);
    permit->n_open++;
    permit->most_open = permit->n_open > permit->most_open ? permit->n_open : permit->most_open;
    *out = question;
    return BELFRY_OK;
}

static struct permit permit;

void permit_cancel(struct permit_question *question)
{
    assert_non_null(question->fn);
    question->fn = NULL;
    permit.n_open--;
}

static void say(struct permit_question *question, enum permit_verdict verdict, const char *reason)
{
    permit_fn fn = question->fn;
    if (fn == NULL)
        return;
    question->fn = NULL;
    permit.n_open--;
    fn(verdict, reason, question->user);
}

/* Answers everything that is asked: these prefixes may be read, and no other. */
static void answer_all(const char *const *may)
{
    for (size_t i = 0; i < permit.n; i++) {
        bool granted = false;
        for (size_t k = 0; may[k] != NULL; k++)
            granted = granted || strcmp(may[k], permit.questions[i].key) == 0;
        say(&permit.questions[i], granted ? PERMIT_GRANTED : PERMIT_REFUSED, granted ? "" : PERMIT_DENIED);
    }
}

/* ---- a catalog ---- */

static enum belfry_err add_resource(struct kube_resource **to, const char *plural, const char *prefix,
                                    const char *under)
{
    char text[512], *why = NULL;
    snprintf(
        text, sizeof(text),
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.demo.example.com}\n"
        "spec: {group: demo.example.com, scope: Namespaced, names: {plural: %s, kind: K%s}, versions: "
        "[{name: v1, served: true, storage: true}]}\n",
        plural, plural, plural);
    struct kube_resource_opts opts = {.prefix = prefix, .under = under};
    enum belfry_err err = kube_resource_read(belfry_bytes_str(text), &opts, to, &why);
    free(why);
    return err;
}

/* Two from files, two that lie in etcd under one prefix. */
static enum belfry_err make_catalog(struct kube_catalog **out)
{
    static const struct {
        const char *plural, *prefix, *under;
    } rows[] = {
        {"as", "/a/", NULL}, {"bs", "/b/", NULL}, {"cs", "/c/", "/definitions/"}, {"ds", "/d/", "/definitions/"}};
    struct kube_resource *resources[4] = {0};
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < 4 && err == BELFRY_OK; i++)
        err = add_resource(&resources[i], rows[i].plural, rows[i].prefix, rows[i].under);
    char *why = NULL;
    if (err == BELFRY_OK)
        err = kube_catalog_make(resources, 4, out, &why);
    free(why);
    for (size_t i = 0; i < 4; i++)
        kube_resource_unref(resources[i]);
    return err;
}

/* ---- asking ---- */

static struct {
    struct kube_sight *sight;
    struct kube_catalog *catalog;
    struct kube_sight_asker *asker; /* NULL: answered */
    enum kube_sight_verdict verdict;
    const struct kube_catalog *seen; /* to be compared only */
    char plurals[64], why[64];
} bed;

static void on_sight(enum kube_sight_verdict verdict, const struct kube_catalog *seen, const char *why, void *user)
{
    assert_ptr_equal(user, &bed);
    bed.asker = NULL;
    bed.verdict = verdict;
    bed.seen = seen;
    bed.plurals[0] = '\0';
    snprintf(bed.why, sizeof(bed.why), "%s", why);
    for (size_t i = 0; seen != NULL && i < kube_catalog_count(seen); i++)
        strcat(bed.plurals, kube_catalog_at(seen, i)->plural);
}

static enum belfry_err ask(const char *token)
{
    char text[32];
    snprintf(text, sizeof(text), "%s", token);
    permit = (struct permit){.err = permit.err};
    struct identity who = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str(text));
    enum belfry_err err = kube_sight_ask(bed.sight, bed.catalog, &who, 1, on_sight, &bed, &bed.asker);
    memset(text, 'x', sizeof(text)); /* it was copied */
    return err;
}

static enum belfry_err open_bed(void)
{
    memset(&bed, 0, sizeof(bed));
    permit = (struct permit){0};
    enum belfry_err err = make_catalog(&bed.catalog);
    return err == BELFRY_OK ? kube_sight_create(&permit, &bed.sight) : err;
}

static void close_bed(void)
{
    if (bed.asker != NULL)
        kube_sight_cancel(bed.asker);
    assert_int_equal(permit.n_open, 0);
    kube_sight_destroy(bed.sight);
    kube_catalog_unref(bed.catalog);
}

static int setup(void **state)
{
    (void)state;
    return open_bed() == BELFRY_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    close_bed();
    return refuse_held() == 0 ? 0 : -1;
}

#define MAY(...) ((const char *const[]){__VA_ARGS__, NULL})

static void definitions_are_guarded_by_where_they_lie_or_by_their_objects(void **state)
{
    (void)state;
    assert_int_equal(ask("t.1"), BELFRY_OK);
    assert_int_equal(permit.n, 3);
    static const char *const keys[] = {"/a/", "/b/", "/definitions/"}, *const ends[] = {"/a0", "/b0", "/definitions0"};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(permit.questions[i].key, keys[i]);
        assert_string_equal(permit.questions[i].end, ends[i]);
        assert_string_equal(permit.questions[i].token, "t.1");
    }
}

static void who_may_read_every_guard_sees_the_catalog_itself(void **state)
{
    (void)state;
    assert_int_equal(ask("t.1"), BELFRY_OK);
    answer_all(MAY("/a/", "/b/", "/definitions/"));
    assert_int_equal(bed.verdict, KUBE_SIGHT_SEES);
    assert_ptr_equal(bed.seen, bed.catalog);
}

static void others_see_a_part_which_is_made_once(void **state)
{
    (void)state;
    assert_int_equal(ask("t.1"), BELFRY_OK);
    answer_all(MAY("/a/", "/definitions/"));
    assert_int_equal(bed.verdict, KUBE_SIGHT_SEES);
    assert_string_equal(bed.plurals, "ascsds");
    const struct kube_catalog *first = bed.seen;
    assert_int_equal(ask("t.2"), BELFRY_OK);
    answer_all(MAY("/b/"));
    assert_string_equal(bed.plurals, "bs");
    assert_int_equal(ask("t.3"), BELFRY_OK);
    assert_int_equal(permit.n, 3); /* the catalog is kept, the answer is not */
    answer_all(MAY("/a/", "/definitions/"));
    assert_ptr_equal(bed.seen, first);
    kube_sight_forget(bed.sight);
    assert_int_equal(ask("t.3"), BELFRY_OK);
    answer_all(MAY("/a/", "/definitions/"));
    assert_string_equal(bed.plurals, "ascsds");
}

static void who_may_read_none_is_told_so(void **state)
{
    (void)state;
    assert_int_equal(ask("t.1"), BELFRY_OK);
    answer_all(MAY("/elsewhere/"));
    assert_int_equal(bed.verdict, KUBE_SIGHT_NOTHING);
    assert_null(bed.seen);
}

static void a_token_that_is_none_ends_it_at_once(void **state)
{
    (void)state;
    static const char *const reasons[] = {PERMIT_NO_USER, PERMIT_BAD_TOKEN, PERMIT_OLD_REVISION};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ask("t.1"), BELFRY_OK);
        say(&permit.questions[1], PERMIT_REFUSED, reasons[i]);
        assert_int_equal(bed.verdict, KUBE_SIGHT_NO_TOKEN);
        assert_int_equal(permit.n_open, 0); /* the others are not asked any more */
    }
}

static void upstream_that_is_away_and_too_many_questions_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(ask("t.1"), BELFRY_OK);
    say(&permit.questions[0], PERMIT_GRANTED, "");
    say(&permit.questions[2], PERMIT_UNAVAILABLE, "no leader");
    assert_int_equal(bed.verdict, KUBE_SIGHT_UNAVAILABLE);
    assert_string_equal(bed.why, "no leader");
    permit.err = BELFRY_ERR_LIMIT;
    assert_int_equal(ask("t.1"), BELFRY_ERR_LIMIT);
    permit.err = BELFRY_OK;
}

static void an_empty_catalog_asks_for_a_token_only(void **state)
{
    (void)state;
    char *why;
    kube_catalog_unref(bed.catalog);
    bed.catalog = NULL;
    assert_int_equal(kube_catalog_make(NULL, 0, &bed.catalog, &why), BELFRY_OK);
    assert_int_equal(ask("t.1"), BELFRY_OK);
    assert_int_equal(permit.n, 1);
    say(&permit.questions[0], PERMIT_REFUSED, PERMIT_DENIED);
    assert_int_equal(bed.verdict, KUBE_SIGHT_SEES);
    assert_ptr_equal(bed.seen, bed.catalog);
    assert_int_equal(ask(""), BELFRY_OK);
    say(&permit.questions[0], PERMIT_REFUSED, PERMIT_NO_USER);
    assert_int_equal(bed.verdict, KUBE_SIGHT_NO_TOKEN);
}

#define MANY (2 * KUBE_SIGHT_ASKS + 3)

static void replace_by_many(void)
{
    struct kube_resource *resources[MANY];
    char plural[16], prefix[16], *why = NULL;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(plural, sizeof(plural), "r%zu", i);
        snprintf(prefix, sizeof(prefix), "/%02zu/", i);
        assert_int_equal(add_resource(&resources[i], plural, prefix, NULL), BELFRY_OK);
    }
    kube_catalog_unref(bed.catalog);
    assert_int_equal(kube_catalog_make(resources, MANY, &bed.catalog, &why), BELFRY_OK);
    for (size_t i = 0; i < MANY; i++)
        kube_resource_unref(resources[i]);
}

static void many_guards_are_asked_a_few_at_a_time(void **state)
{
    (void)state;
    replace_by_many();
    assert_int_equal(ask("t.1"), BELFRY_OK);
    assert_int_equal(permit.n, KUBE_SIGHT_ASKS);
    for (size_t i = 0; i < MANY; i++) /* each answer asks the next */
        say(&permit.questions[i], PERMIT_GRANTED, "");
    assert_int_equal(permit.n, MANY);
    assert_int_equal(permit.most_open, KUBE_SIGHT_ASKS);
    assert_int_equal(bed.verdict, KUBE_SIGHT_SEES);
    assert_ptr_equal(bed.seen, bed.catalog);
    assert_int_equal(ask("t.1"), BELFRY_OK);
    permit.err = BELFRY_ERR_LIMIT;
    say(&permit.questions[0], PERMIT_GRANTED, "");
    assert_int_equal(bed.verdict, KUBE_SIGHT_BUSY);
    permit.err = BELFRY_OK;
}

static void no_more_parts_are_kept_than_there_is_room_for(void **state)
{
    (void)state;
    char prefix[8];
    replace_by_many();
    for (size_t round = 0; round < 2; round++) {
        size_t before = refuse_held();
        for (size_t i = 0; i < MANY; i++) {
            snprintf(prefix, sizeof(prefix), "/%02zu/", i);
            assert_int_equal(ask("t.1"), BELFRY_OK);
            answer_all(MAY(prefix));
            assert_int_equal(bed.verdict, KUBE_SIGHT_SEES);
        }
        if (round == 1) /* what was made took the place of what was there */
            assert_int_equal(refuse_held(), before);
    }
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = open_bed();
    for (int i = 0; i < 2 && err == BELFRY_OK; i++) {
        err = ask("t.1");
        if (err == BELFRY_OK) {
            answer_all(MAY("/b/"));
            err = bed.verdict == KUBE_SIGHT_SEES ? BELFRY_OK : BELFRY_ERR_NOMEM;
        }
    }
    close_bed();
    return err;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(definitions_are_guarded_by_where_they_lie_or_by_their_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(who_may_read_every_guard_sees_the_catalog_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(others_see_a_part_which_is_made_once, setup, teardown),
        cmocka_unit_test_setup_teardown(who_may_read_none_is_told_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_that_is_none_ends_it_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(upstream_that_is_away_and_too_many_questions_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_catalog_asks_for_a_token_only, setup, teardown),
        cmocka_unit_test_setup_teardown(many_guards_are_asked_a_few_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(no_more_parts_are_kept_than_there_is_room_for, setup, teardown),
        cmocka_unit_test(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
