/* src/serve/rights/review_text_test.c */
#include "serve/rights/review_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "json/document.h"

#define TEXT(text) belfry_bytes_of("" text, sizeof(text) - 1)

static const struct review_subject pods = {
    .verb = {"list", 4}, .version = {"v1", 2}, .resource = {"pods", 4}, .namespace = {"x", 1}};

static int nothing_is_held(void **state)
{
    (void)state;
    return refuse_held() == 0 ? 0 : -1;
}

static void assert_buf(const struct belfry_buf *buf, const char *text)
{
    struct belfry_bytes bytes = belfry_buf_bytes(buf);
    assert_int_equal(bytes.len, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.len);
}

/* ---- tokens ---- */

static void token_is_asked_about_as_it_is(void **state)
{
    (void)state;
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(review_token_write(TEXT("a\"b\\c.d"), &out), BELFRY_OK);
    assert_buf(&out, "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\","
                     "\"spec\":{\"token\":\"a\\\"b\\\\c.d\"}}");
    belfry_buf_fini(&out);
}

static void only_visible_characters_are_a_token(void **state)
{
    (void)state;
    static char longest[REVIEW_TOKEN_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    assert_true(review_token_is_plain(TEXT("eyJ.a-b_c~+/=!\"")));
    assert_true(review_token_is_plain(belfry_bytes_of(longest, REVIEW_TOKEN_MAX)));
    assert_false(review_token_is_plain(belfry_bytes_of(longest, REVIEW_TOKEN_MAX + 1)));
    assert_false(review_token_is_plain(TEXT("")));
    assert_false(review_token_is_plain((struct belfry_bytes){0}));
    assert_false(review_token_is_plain(TEXT("a b")));
    assert_false(review_token_is_plain(TEXT("a\nb")));
    assert_false(review_token_is_plain(TEXT("a\0b")));
    assert_false(review_token_is_plain(TEXT("a\x7f")));
    assert_false(review_token_is_plain(TEXT("a\xc3\xa4")));
}

static enum review_says says_of_token(const char *answer, struct review_user *user)
{
    enum review_says says;
    assert_int_equal(review_token_read(belfry_bytes_str(answer), user, &says), BELFRY_OK);
    return says;
}

static void user_is_passed_on_with_all_that_is_known(void **state)
{
    (void)state;
    struct review_user user = {0};
    assert_int_equal(says_of_token("{\"kind\":\"TokenReview\",\"apiVersion\":\"authentication.k8s.io/v1\",\"metadata\":"
                                   "{\"creationTimestamp\":null},\"spec\":{\"token\":\"t\"},\"status\":{"
                                   "\"authenticated\":true,\"user\":{\"username\":\"system:serviceaccount:ns:a\\\"b\","
                                   "\"uid\":\"17\",\"groups\":[\"g\",\"h\\u00e9\"],\"extra\":{\"pod/na\\\"me\":[\"p\"],"
                                   "\"none\":null}},\"audiences\":[\"api\"]}}",
                                   &user),
                     REVIEW_YES);
    assert_buf(&user.name, "system:serviceaccount:ns:a\"b");
    assert_buf(&user.spec,
               "\"user\":\"system:serviceaccount:ns:a\\\"b\",\"uid\":\"17\",\"groups\":[\"g\",\"h\\u00e9\"],"
               "\"extra\":{\"pod/na\\\"me\":[\"p\"],\"none\":null}");
    belfry_buf_fini(&user.name);
    belfry_buf_fini(&user.spec);
}

static void user_may_have_a_name_alone(void **state)
{
    (void)state;
    struct review_user user = {0};
    assert_int_equal(says_of_token("{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true,\"user\":"
                                   "{\"uid\":null,\"username\":\"u\"}}}",
                                   &user),
                     REVIEW_YES);
    assert_buf(&user.spec, "\"user\":\"u\"");
    belfry_buf_fini(&user.name);
    belfry_buf_fini(&user.spec);
}

#define TOKEN_REVIEW(status) "{\"kind\":\"TokenReview\",\"status\":" status "}"
#define USER(user)           TOKEN_REVIEW("{\"authenticated\":true,\"user\":" user "}")

static void nobody_and_the_anonymous_user_are_refused(void **state)
{
    (void)state;
    static const char *const answers[] = {
        TOKEN_REVIEW("{}"),
        TOKEN_REVIEW("{\"authenticated\":false}"),
        TOKEN_REVIEW("{\"error\":\"[invalid bearer token]\",\"user\":{\"username\":\"u\"}}"),
        TOKEN_REVIEW("{\"authenticated\":\"true\",\"user\":{\"username\":\"u\"}}"),
        TOKEN_REVIEW("{\"authenticated\":1,\"user\":{\"username\":\"u\"}}"),
        USER("{\"username\":\"system:anonymous\",\"groups\":[\"system:unauthenticated\"]}"),
        USER("{\"username\":\"system:anonymous\"}"),
        USER("{\"username\":\"u\",\"groups\":[\"a\",\"system:unauthenticated\"]}"),
    };
    struct review_user user = {0};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        assert_int_equal(says_of_token(answers[i], &user), REVIEW_NO);
}

static void strange_answer_about_a_token_says_nothing(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "",
        "null",
        "[]",
        "{",
        "{}",
        "{\"kind\":\"Status\",\"status\":\"Failure\"}",
        "{\"kind\":\"SubjectAccessReview\",\"status\":{\"authenticated\":true,\"user\":{\"username\":\"u\"}}}",
        TOKEN_REVIEW("true"),
        TOKEN_REVIEW("{\"authenticated\":true}"),
        USER("\"u\""),
        USER("{}"),
        USER("{\"username\":\"\"}"),
        USER("{\"username\":17}"),
        USER("{\"username\":\"u\",\"uid\":17}"),
        USER("{\"username\":\"u\",\"groups\":\"g\"}"),
        USER("{\"username\":\"u\",\"groups\":[1]}"),
        USER("{\"username\":\"u\",\"extra\":[]}"),
        USER("{\"username\":\"u\",\"extra\":{\"a\":\"b\"}}"),
        USER("{\"username\":\"u\",\"extra\":{\"a\":[null]}}"),
        USER("{\"username\":\"u\"}") "x",
    };
    struct review_user user = {0};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        assert_int_equal(says_of_token(answers[i], &user), REVIEW_UNREADABLE);
}

/* ---- access ---- */

static void access_is_asked_about_with_every_attribute(void **state)
{
    (void)state;
    struct review_subject subject = pods;
    struct belfry_buf out;
    belfry_buf_init(&out);
    subject.group = TEXT("g");
    subject.subresource = TEXT("log");
    subject.name = TEXT("p\"");
    subject.label_selector = TEXT("app in (a,b)");
    subject.field_selector = TEXT("spec.nodeName=n1");
    assert_int_equal(review_access_write(TEXT("\"user\":\"u\""), &subject, &out), BELFRY_OK);
    assert_buf(&out, "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\",\"spec\":{\"user\":"
                     "\"u\",\"resourceAttributes\":{\"verb\":\"list\",\"group\":\"g\",\"version\":\"v1\",\"resource\":"
                     "\"pods\",\"subresource\":\"log\",\"namespace\":\"x\",\"name\":\"p\\\"\",\"labelSelector\":"
                     "{\"rawSelector\":\"app in (a,b)\"},\"fieldSelector\":{\"rawSelector\":\"spec.nodeName=n1\"}}}}");
    struct belfry_kube_document document = {0};
    struct belfry_bytes bytes = belfry_buf_bytes(&out);
    assert_int_equal(belfry_kube_document_read(&bytes, 1, &document), BELFRY_OK);
    belfry_kube_document_fini(&document);
    belfry_buf_fini(&out);
}

static void text_that_json_cannot_have_is_not_asked_about(void **state)
{
    (void)state;
    struct belfry_buf out;
    belfry_buf_init(&out);
    struct review_subject subject = pods;
    subject.name = TEXT("a\xff");
    assert_int_equal(review_access_write(TEXT("\"user\":\"u\""), &subject, &out), BELFRY_ERR_INVALID);
    subject = pods;
    subject.namespace = TEXT("\xc0\x80");
    assert_int_equal(review_access_write(TEXT("\"user\":\"u\""), &subject, &out), BELFRY_ERR_INVALID);
    subject = pods;
    subject.field_selector = TEXT("\xed\xa0\x80");
    assert_int_equal(review_access_write(TEXT("\"user\":\"u\""), &subject, &out), BELFRY_ERR_INVALID);
    belfry_buf_fini(&out);
}

static enum review_says says_of_access(const char *answer, const char *reason)
{
    enum review_says says;
    struct belfry_buf why;
    belfry_buf_init(&why);
    assert_int_equal(review_access_read(belfry_bytes_str(answer), &why, &says), BELFRY_OK);
    assert_buf(&why, reason);
    belfry_buf_fini(&why);
    return says;
}

#define ACCESS(status) "{\"kind\":\"SubjectAccessReview\",\"status\":" status "}"

static void access_is_allowed_only_by_a_plain_yes(void **state)
{
    (void)state;
    assert_int_equal(says_of_access(ACCESS("{\"allowed\":true}"), ""), REVIEW_YES);
    assert_int_equal(says_of_access(ACCESS("{\"allowed\":true,\"reason\":\"RBAC: allowed by x\"}"), ""), REVIEW_YES);
    assert_int_equal(says_of_access(ACCESS("{\"allowed\":true,\"denied\":true}"), ""), REVIEW_NO);
    assert_int_equal(says_of_access(ACCESS("{\"allowed\":false}"), ""), REVIEW_NO);
    assert_int_equal(says_of_access(ACCESS("{\"allowed\":false,\"reason\":\"no \\\"n1\\\"\"}"), "no \"n1\""),
                     REVIEW_NO);
    static const char *const strange[] = {"",
                                          "true",
                                          "{}",
                                          ACCESS("{}"),
                                          ACCESS("{\"allowed\":\"true\"}"),
                                          ACCESS("{\"allowed\":1}"),
                                          ACCESS("[{\"allowed\":true}]"),
                                          "{\"status\":{\"allowed\":true}}",
                                          "{\"kind\":\"SelfSubjectAccessReview\",\"status\":{\"allowed\":true}}",
                                          ACCESS("{\"allowed\":true}") "}"};
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
        assert_int_equal(says_of_access(strange[i], ""), REVIEW_UNREADABLE);
}

/* ---- the sentence ---- */

static void sentence_is_kubernetes_own(void **state)
{
    (void)state;
    char out[REVIEW_SENTENCE_MAX];
    struct review_subject subject = pods;
    review_sentence(TEXT("u"), &subject, TEXT(""), out);
    assert_string_equal(
        out, "pods is forbidden: User \"u\" cannot list resource \"pods\" in API group \"\" in the namespace \"x\"");
    subject.namespace = TEXT("");
    subject.group = TEXT("demo.example.com");
    subject.resource = TEXT("widgets");
    subject.subresource = TEXT("status");
    subject.name = TEXT("w");
    subject.verb = TEXT("get");
    review_sentence(TEXT("a\\b\"<&>\n\xc3\xa4\xff"), &subject, TEXT("can only \"read\"\n"), out);
    assert_string_equal(out, "widgets.demo.example.com \"w\" is forbidden: User \"a\\\\b\\\"&lt;&amp;&gt;\\x0a\xc3\xa4"
                             "\\xff\" cannot get resource \"widgets/status\" in API group \"demo.example.com\" at the "
                             "cluster scope: can only \"read\"?");
}

static void long_sentence_is_cut_between_characters(void **state)
{
    (void)state;
    char out[REVIEW_SENTENCE_MAX], user[3 * REVIEW_SENTENCE_MAX];
    for (size_t i = 0; i < sizeof(user); i += 3)
        memcpy(user + i, "\xe2\x82\xac", 3);
    for (size_t len = sizeof(user) - 12; len <= sizeof(user); len += 3) {
        review_sentence(belfry_bytes_of(user, len), &pods, TEXT("why"), out);
        assert_true(strlen(out) < REVIEW_SENTENCE_MAX);
        assert_int_equal((strlen(out) - strlen("pods is forbidden: User \"")) % 3, 0);
    }
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    struct review_user user = {0};
    struct belfry_buf out, why;
    enum review_says says;
    belfry_buf_init(&out);
    belfry_buf_init(&why);
    enum belfry_err err = review_token_write(TEXT("t"), &out);
    if (err == BELFRY_OK)
        err = review_token_read(TEXT(USER("{\"username\":\"u\",\"groups\":[\"g\"],\"extra\":{\"a\":[\"b\"]}}")), &user,
                                &says);
    if (err == BELFRY_OK)
        err = review_access_write(belfry_buf_bytes(&user.spec), &pods, &out);
    if (err == BELFRY_OK)
        err = review_access_read(TEXT(ACCESS("{\"allowed\":false,\"reason\":\"r\"}")), &why, &says);
    belfry_buf_fini(&user.spec);
    belfry_buf_fini(&user.name);
    belfry_buf_fini(&out);
    belfry_buf_fini(&why);
    return err;
}

static void every_refused_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(token_is_asked_about_as_it_is, nothing_is_held),
        cmocka_unit_test_teardown(only_visible_characters_are_a_token, nothing_is_held),
        cmocka_unit_test_teardown(user_is_passed_on_with_all_that_is_known, nothing_is_held),
        cmocka_unit_test_teardown(user_may_have_a_name_alone, nothing_is_held),
        cmocka_unit_test_teardown(nobody_and_the_anonymous_user_are_refused, nothing_is_held),
        cmocka_unit_test_teardown(strange_answer_about_a_token_says_nothing, nothing_is_held),
        cmocka_unit_test_teardown(access_is_asked_about_with_every_attribute, nothing_is_held),
        cmocka_unit_test_teardown(text_that_json_cannot_have_is_not_asked_about, nothing_is_held),
        cmocka_unit_test_teardown(access_is_allowed_only_by_a_plain_yes, nothing_is_held),
        cmocka_unit_test_teardown(sentence_is_kubernetes_own, nothing_is_held),
        cmocka_unit_test_teardown(long_sentence_is_cut_between_characters, nothing_is_held),
        cmocka_unit_test_teardown(every_refused_allocation_is_reported, nothing_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
