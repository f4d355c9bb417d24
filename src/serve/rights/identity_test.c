/* src/serve/rights/identity_test.c */
#include "serve/rights/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/fakeexchange.h"
#include "support/refuse.h"

static struct identity read_fields(enum identity_dialect dialect, const char *user, const char *const *fields)
{
    static struct fakeexchange_head head;
    struct fakeexchange fake;
    fakeexchange_init(&fake, 0);
    fake.conn.user = user;
    fakeexchange_head(&head, "POST", "/s/m", fields);
    struct identity identity = identity_read(&fake.x, &head.head, dialect);
    fakeexchange_fini(&fake);
    return identity;
}

static void assert_token(const struct identity *identity, enum identity_field field, const char *token)
{
    assert_int_equal(identity->kind, IDENTITY_TOKEN);
    assert_int_equal(identity->field, field);
    assert_true(belfry_bytes_equal(identity->text, belfry_bytes_str(token)));
    assert_false(identity->accepted);
}

static void assert_shown(const struct identity *identity, const char *expected)
{
    char shown[IDENTITY_SHOWN];
    identity_show(identity, shown);
    assert_string_equal(shown, expected);
}

static void grpc_takes_the_field_that_etcd_would(void **state)
{
    (void)state;
    const char *const both[] = {"authorization: b", "token: a", "token: c", NULL};
    struct identity identity = read_fields(IDENTITY_OF_GRPC, NULL, both);
    assert_token(&identity, IDENTITY_FIELD_TOKEN, "a");
    assert_string_equal(identity_field_name(&identity), "token");
    const char *const one[] = {"authorization: Bearer b", NULL};
    identity = read_fields(IDENTITY_OF_GRPC, NULL, one);
    assert_token(&identity, IDENTITY_FIELD_AUTHORIZATION, "Bearer b"); /* etcd takes the whole field */
    assert_string_equal(identity_field_name(&identity), "authorization");
    const char *const empty[] = {"token: ", "authorization: b", NULL};
    identity = read_fields(IDENTITY_OF_GRPC, NULL, empty);
    assert_token(&identity, IDENTITY_FIELD_TOKEN, "");
}

static void kubernetes_takes_the_bearer(void **state)
{
    (void)state;
    const char *const bearer[] = {"token: a", "authorization: bEARER t.1", NULL};
    struct identity identity = read_fields(IDENTITY_OF_KUBE, "alice", bearer);
    assert_token(&identity, IDENTITY_FIELD_AUTHORIZATION, "t.1");
    static const char *const others[] = {"authorization: Basic eDp5", "authorization: Bearer", "authorization: Bearer ",
                                         "token: a"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *const fields[] = {others[i], NULL};
        assert_int_equal(read_fields(IDENTITY_OF_KUBE, NULL, fields).kind, IDENTITY_NONE);
    }
}

static void token_wins_over_certificate(void **state)
{
    (void)state;
    const char *const none[] = {NULL}, *const token[] = {"token: a", NULL};
    struct identity identity = read_fields(IDENTITY_OF_GRPC, "alice", none);
    assert_int_equal(identity.kind, IDENTITY_CERT);
    assert_true(belfry_bytes_equal(identity.text, belfry_bytes_str("alice")));
    assert_null(identity_field_name(&identity));
    assert_shown(&identity, "cert:alice");
    identity = read_fields(IDENTITY_OF_GRPC, "alice", token);
    assert_token(&identity, IDENTITY_FIELD_TOKEN, "a");
    identity = read_fields(IDENTITY_OF_GRPC, "", none);
    assert_int_equal(identity.kind, IDENTITY_NONE);
    assert_null(identity_field_name(&identity));
    assert_shown(&identity, "none");
}

static void listener_says_which_rights(void **state)
{
    (void)state;
    const char *const fields[] = {NULL};
    const struct listen_policy policy = {.rights = LISTEN_RIGHTS_OPEN};
    struct fakeexchange_head head;
    struct fakeexchange fake;
    fakeexchange_init(&fake, 0);
    fakeexchange_head(&head, "GET", "/", fields);
    assert_int_equal(identity_read(&fake.x, &head.head, IDENTITY_OF_KUBE).rights, LISTEN_RIGHTS_ASKED);
    fake.conn.policy = &policy;
    assert_int_equal(identity_read(&fake.x, &head.head, IDENTITY_OF_KUBE).rights, LISTEN_RIGHTS_OPEN);
    fakeexchange_fini(&fake);
}

/* ---- users that tiers below pass on ---- */

static const char *const trusted[] = {"leaf-1", "leaf-2"};
static const struct listen_policy below = {.users_from = {trusted, 2}, .rights = LISTEN_RIGHTS_OPEN};

/* The refusal of a request on a connection of `user`; its identity in *out. */
static const char *refusal_of(const char *user, const struct listen_policy *policy, const char *const *fields,
                              struct identity *out)
{
    static struct fakeexchange_head head;
    struct fakeexchange fake;
    fakeexchange_init(&fake, 0);
    fake.conn.user = user;
    fake.conn.policy = policy;
    fakeexchange_head(&head, "POST", "/s/m", fields);
    const char *why = identity_refuses(&fake.x, &head.head);
    *out = identity_read(&fake.x, &head.head, IDENTITY_OF_GRPC);
    fakeexchange_fini(&fake);
    return why;
}

static void named_tier_passes_a_user_on(void **state)
{
    (void)state;
    static const char *const names[] = {"alice", " a  b ", "root", "%41", "a\\b", "\xc3\xa4", "leaf-2"};
    struct identity who;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[IDENTITY_FIELD_BYTES], line[300];
        struct belfry_http_field field = identity_field_of_user(belfry_bytes_str(names[i]), text);
        snprintf(line, sizeof(line), "belfry-user: %.*s", (int)field.value.len, field.value.data);
        const char *const fields[] = {"grpcgateway-accept: belfry", line, NULL};
        assert_null(refusal_of("leaf-2", &below, fields, &who));
        assert_int_equal(who.kind, IDENTITY_CERT);
        assert_int_equal(who.rights, LISTEN_RIGHTS_OPEN);
        assert_true(belfry_bytes_equal(who.text, belfry_bytes_str(names[i])));
    }
    const char *const none[] = {NULL};
    assert_null(refusal_of("leaf-1", &below, none, &who)); /* its own */
    assert_true(who.kind == IDENTITY_CERT && belfry_bytes_equal(who.text, belfry_bytes_str("leaf-1")));
}

static void user_from_any_other_connection_is_refused_and_not_ignored(void **state)
{
    (void)state;
    const char *const fields[] = {"belfry-user: \"alice\"", NULL};
    static const struct listen_policy plain = {.rights = LISTEN_RIGHTS_OPEN};
    static const char *const others[] = {NULL, "", "alice", "leaf-", "leaf-11", "LEAF-1"};
    struct identity who;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_non_null(strstr(refusal_of(others[i], &below, fields, &who), "only from tiers"));
        assert_true(who.kind == IDENTITY_NONE && who.rights == LISTEN_RIGHTS_UPSTREAM); /* nothing is granted to it */
    }
    assert_non_null(refusal_of("leaf-1", &plain, fields, &who));
    assert_non_null(refusal_of("leaf-1", NULL, fields, &who));
    assert_int_equal(who.kind, IDENTITY_NONE);
}

static void user_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    char longest[300] = "belfry-user: \"", longer[304];
    struct identity who;
    memset(longest + strlen(longest), 'a', IDENTITY_USER_BYTES);
    snprintf(longer, sizeof(longer), "%sa\"", longest);
    strcat(longest, "\"");
    const char *const most[] = {longest, NULL};
    assert_null(refusal_of("leaf-1", &below, most, &who));
    assert_int_equal(who.text.len, IDENTITY_USER_BYTES);
    const char *const values[] = {"belfry-user: ",
                                  "belfry-user: alice",
                                  "belfry-user: \"",
                                  "belfry-user: \"\"",
                                  "belfry-user: \"alice",
                                  "belfry-user: alice\"",
                                  "belfry-user: \"a\"b\"",
                                  "belfry-user: \"a\tb\"",
                                  "belfry-user: \"\xff\"",
                                  "belfry-user: \"\x7f\"",
                                  longer};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const char *const fields[] = {values[i], NULL};
        assert_non_null(strstr(refusal_of("leaf-1", &below, fields, &who), "no name"));
        assert_int_equal(who.kind, IDENTITY_NONE);
    }
}

static void user_beside_another_or_a_token_is_refused(void **state)
{
    (void)state;
    const char *const two[] = {"belfry-user: \"a\"", "belfry-user: \"a\"", NULL};
    const char *const token[] = {"belfry-user: \"a\"", "token: t", NULL};
    const char *const bearer[] = {"authorization: b", "belfry-user: \"a\"", NULL};
    struct identity who;
    assert_non_null(strstr(refusal_of("leaf-1", &below, two, &who), "one belfry-user at most"));
    assert_non_null(strstr(refusal_of("leaf-1", &below, token, &who), "not both"));
    assert_non_null(strstr(refusal_of("leaf-1", &below, bearer, &who), "not both"));
    assert_int_equal(who.kind, IDENTITY_NONE);
}

/* A tier below sends it for a client without a user, so that the tier's own certificate does not count. */
static void certificate_does_not_count_beside_grpcgateway_accept(void **state)
{
    (void)state;
    const char *const fields[] = {"grpcgateway-accept: belfry", NULL};
    assert_int_equal(read_fields(IDENTITY_OF_GRPC, "alice", fields).kind, IDENTITY_NONE);
}

static void token_is_shown_by_a_tag_and_as_a_claim_until_it_is_accepted(void **state)
{
    (void)state;
    struct identity a = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("secret.1"));
    struct identity same = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str("secret.1"));
    struct identity other = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("secret.2"));
    char shown[IDENTITY_SHOWN], expected[IDENTITY_SHOWN];
    identity_show(&a, shown);
    snprintf(expected, sizeof(expected), "claim:%06x", (unsigned)a.tag);
    assert_string_equal(shown, expected);
    assert_int_equal(strlen(shown), 12);
    a.accepted = true;
    snprintf(expected, sizeof(expected), "token:%06x", (unsigned)a.tag);
    assert_shown(&a, expected);
    assert_int_equal(a.tag, same.tag);
    assert_int_not_equal(a.tag, other.tag); /* fails once in 16 million runs */
}

static void token_whose_user_upstream_has_named_is_shown_by_that_name(void **state)
{
    (void)state;
    struct identity a = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str("named.1"));
    char expected[IDENTITY_SHOWN], text[300], shown[IDENTITY_SHOWN];
    identity_learn(belfry_bytes_str("named.1"), belfry_bytes_str("alice"));
    snprintf(expected, sizeof(expected), "claim:%06x", (unsigned)a.tag);
    assert_shown(&a, expected); /* whoever it was: this request has not been judged yet */
    a.accepted = true;
    assert_shown(&a, "user:alice");
    identity_learn(belfry_bytes_str("named.1"), belfry_bytes_str("a b"));
    assert_shown(&a, "user:a%20b");
    memset(text, 'x', sizeof(text));
    identity_learn(belfry_bytes_str("named.1"), belfry_bytes_of(text, sizeof(text)));
    identity_show(&a, shown);
    assert_string_equal(shown + strlen(shown) - 4, "x...");
    for (unsigned i = 0; i < 4 * IDENTITY_NAMES; i++) { /* the table is bounded: others take its place */
        int len = snprintf(text, sizeof(text), "other.%u", i);
        identity_learn(belfry_bytes_of(text, (size_t)len), belfry_bytes_str("bob"));
    }
    struct identity last = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_of(text, strlen(text)));
    last.accepted = true;
    assert_shown(&last, "user:bob");
}

static void same_is_what_upstream_answers_alike(void **state)
{
    (void)state;
    struct identity a = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("x"));
    struct identity field = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str("x"));
    struct identity name = {.kind = IDENTITY_CERT, .text = belfry_bytes_str("x")};
    struct identity longer = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("xy"));
    char text[8], *to = text;
    struct identity copy = identity_pack(&to, &a);
    assert_true(to == text + 1 && copy.text.data == text);
    copy.accepted = true;
    assert_true(identity_same(&a, &copy));
    assert_false(identity_same(&a, &field));
    assert_false(identity_same(&a, &name));
    assert_false(identity_same(&a, &longer));
}

static void name_cannot_forge_a_line_of_the_log(void **state)
{
    (void)state;
    struct identity name = {.kind = IDENTITY_CERT, .text = belfry_bytes_str("a b\"\n\\%\x7f=c:/\xc3\xa9")};
    assert_shown(&name, "cert:a%20b%22%0A%5C%25%7F=c:/\xc3\xa9");
}

static void long_name_is_cut_between_its_characters(void **state)
{
    (void)state;
    char text[256], shown[IDENTITY_SHOWN];
    for (size_t len = 130; len < 150; len++) {
        for (size_t i = 0; i < len; i++)
            text[i] = "\xc3\xa9"[i % 2];
        struct identity name = {.kind = IDENTITY_CERT, .text = belfry_bytes_of(text, len & ~(size_t)1)};
        identity_show(&name, shown);
        size_t n = strlen(shown);
        bool is_cut = n >= 3 && strcmp(shown + n - 3, "...") == 0;
        assert_true(n < IDENTITY_SHOWN);
        assert_int_equal(is_cut, 5 + name.text.len >= IDENTITY_SHOWN);
        assert_int_equal((n - 5 - (is_cut ? 3 : 0)) % 2, 0);
    }
    memset(text, '"', sizeof(text));
    struct identity quotes = {.kind = IDENTITY_CERT, .text = belfry_bytes_of(text, sizeof(text))};
    identity_show(&quotes, shown);
    assert_non_null(strstr(shown, "%22..."));
}

static enum belfry_err nothing_is_allocated(void)
{
    const char *const fields[] = {"token: a", NULL};
    return read_fields(IDENTITY_OF_GRPC, "alice", fields).kind == IDENTITY_TOKEN ? BELFRY_OK : BELFRY_ERR_PROTOCOL;
}

static void refused_allocation_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(nothing_is_allocated), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grpc_takes_the_field_that_etcd_would),
        cmocka_unit_test(kubernetes_takes_the_bearer),
        cmocka_unit_test(token_wins_over_certificate),
        cmocka_unit_test(listener_says_which_rights),
        cmocka_unit_test(named_tier_passes_a_user_on),
        cmocka_unit_test(user_from_any_other_connection_is_refused_and_not_ignored),
        cmocka_unit_test(user_that_cannot_be_read_is_refused),
        cmocka_unit_test(user_beside_another_or_a_token_is_refused),
        cmocka_unit_test(certificate_does_not_count_beside_grpcgateway_accept),
        cmocka_unit_test(token_is_shown_by_a_tag_and_as_a_claim_until_it_is_accepted),
        cmocka_unit_test(token_whose_user_upstream_has_named_is_shown_by_that_name),
        cmocka_unit_test(same_is_what_upstream_answers_alike),
        cmocka_unit_test(name_cannot_forge_a_line_of_the_log),
        cmocka_unit_test(long_name_is_cut_between_its_characters),
        cmocka_unit_test(refused_allocation_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
