/* src/kube/selector_test.c */
#include "kube/selector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "support/refuse.h"

static char color[] = "spec.color", size_name[] = "spec.size";
static struct kube_field fields[] = {{.name = color}, {.name = size_name}};
static const struct kube_version version = {.fields = fields, .n_fields = 2};
static const struct kube_resource namespaced = {.namespaced = true}, cluster = {.namespaced = false};

static struct kube_selector *must_read(const char *labels, const char *fields_text)
{
    struct kube_selector *selector;
    struct kube_status status;
    status.message[0] = '\0';
    if (kube_selector_read(belfry_bytes_str(labels), belfry_bytes_str(fields_text), &namespaced, &version, &selector,
                           &status) != BELFRY_OK)
        fail_msg("'%s' '%s': %s", labels, fields_text, status.message);
    return selector;
}

/* Labels as "a=1,b=2", in order; "" for none. */
static bool matches(const char *labels, const char *object)
{
    struct kube_label list[16];
    struct kube_attributes attributes = {.labels = list};
    while (*object != '\0') {
        size_t key = strcspn(object, "="), value = strcspn(object + key + 1, ",");
        list[attributes.n_labels++] =
            (struct kube_label){belfry_bytes_of(object, key), belfry_bytes_of(object + key + 1, value)};
        object += key + 1 + value;
        object += *object == ',';
    }
    struct kube_selector *selector = must_read(labels, "");
    bool does = kube_selector_matches(selector, &attributes);
    kube_selector_unref(selector);
    return does;
}

static bool field_matches(const char *selector_text, const char *namespace, const char *name, const char *color_value)
{
    struct kube_attributes attributes = {.namespace = belfry_bytes_str(namespace), .name = belfry_bytes_str(name)};
    attributes.fields[0] = belfry_bytes_str(color_value);
    attributes.fields[1] = belfry_bytes_str("");
    struct kube_selector *selector = must_read("", selector_text);
    bool does = kube_selector_matches(selector, &attributes);
    kube_selector_unref(selector);
    return does;
}

static void assert_refused_bytes(struct belfry_bytes labels, struct belfry_bytes fields_text, const char *message)
{
    struct kube_selector *selector;
    struct kube_status status;
    assert_int_equal(kube_selector_read(labels, fields_text, &namespaced, &version, &selector, &status),
                     BELFRY_ERR_INVALID);
    assert_int_equal(status.reason, KUBE_BAD_REQUEST);
    assert_string_equal(status.message, message);
}

static void assert_refused(const char *labels, const char *fields_text, const char *message)
{
    assert_refused_bytes(belfry_bytes_str(labels), belfry_bytes_str(fields_text), message);
}

static void assert_text(const char *labels, const char *fields_text, const char *expected)
{
    struct kube_selector *selector = must_read(labels, fields_text);
    struct belfry_bytes text = kube_selector_text(selector);
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.data, expected, text.len);
    kube_selector_unref(selector);
}

/* ---- labels ---- */

static void no_requirement_is_everything(void **state)
{
    (void)state;
    static const char *const blank[] = {"", " ", "\t\r\n "};
    for (size_t i = 0; i < sizeof(blank) / sizeof(blank[0]); i++) {
        struct kube_selector *selector = must_read(blank[i], ",,");
        assert_true(kube_selector_is_everything(selector));
        assert_true(kube_selector_matches(selector, &(struct kube_attributes){0}));
        assert_int_equal(kube_selector_text(selector).len, 0);
        assert_non_null(kube_selector_text(selector).data);
        kube_selector_unref(selector);
    }
    struct kube_selector *selector = must_read("a", "");
    assert_false(kube_selector_is_everything(selector));
    kube_selector_unref(selector);
}

static void equality_needs_the_key_and_its_contrary_does_not(void **state)
{
    (void)state;
    assert_true(matches("a=1", "a=1"));
    assert_true(matches("a==1", "a=1,b=2"));
    assert_false(matches("a=1", "a=2"));
    assert_false(matches("a=1", "b=1"));
    assert_false(matches("a=1", ""));
    assert_true(matches("a=", "a="));
    assert_false(matches("a=", ""));
    assert_false(matches("a!=1", "a=1"));
    assert_true(matches("a!=1", "a=2"));
    assert_true(matches("a!=1", ""));
    assert_true(matches("a!=", ""));
    assert_false(matches("a!=", "a="));
}

static void sets_need_the_key_and_their_contrary_does_not(void **state)
{
    (void)state;
    assert_true(matches("a in (1,2,3)", "a=1"));
    assert_true(matches("a in (3,2,1)", "a=2"));
    assert_true(matches("a in (1,2,3,2,1)", "a=3"));
    assert_false(matches("a in (1,2,3)", "a=4"));
    assert_false(matches("a in (1,2)", "b=1"));
    assert_false(matches("a notin (1,2)", "a=2"));
    assert_true(matches("a notin (1,2)", "a=3"));
    assert_true(matches("a notin (1,2)", "b=1"));
}

static void a_set_may_hold_the_empty_value(void **state)
{
    (void)state;
    static const char *const empty[] = {"a in ()", "a in (,)", "a in (x,)", "a in (,x)", "a in (x,,y)", "a in( , )"};
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        assert_true(matches(empty[i], "a="));
        assert_false(matches(empty[i], ""));
        assert_false(matches(empty[i], "a=z"));
    }
    assert_true(matches("a in (x,)", "a=x"));
    assert_true(matches("a in (x,,y)", "a=y"));
    assert_false(matches("a in (x)", "a="));
    assert_true(matches("a notin ()", "a=x"));
    assert_false(matches("a notin ()", "a="));
    assert_true(matches("a notin ()", ""));
}

static void a_key_alone_is_asked_to_be_there_or_not(void **state)
{
    (void)state;
    assert_true(matches("a", "a="));
    assert_false(matches("a", "b=1"));
    assert_false(matches("!a", "a="));
    assert_true(matches("!a", "b=1"));
    assert_true(matches(" ! a ", ""));
    assert_true(matches("b,!c,d", "a=1,b=1,d=1,e=1"));
    assert_false(matches("b,!c,d", "a=1,b=1,c=1,d=1"));
}

static void numbers_are_compared_as_int64(void **state)
{
    (void)state;
    assert_true(matches("a>5", "a=6"));
    assert_true(matches("a>5", "a=10"));
    assert_false(matches("a>5", "a=5"));
    assert_true(matches("a<5", "a=4"));
    assert_true(matches("a<5", "a=-7"));
    assert_true(matches("a<5", "a=+4"));
    assert_false(matches("a<5", "a="));
    assert_false(matches("a<5", "a=-"));
    assert_false(matches("a<5", "a=1x"));
    assert_false(matches("a<5", "a=1_0"));
    assert_false(matches("a<5", ""));
    assert_true(matches("a > 9223372036854775806", "a=9223372036854775807"));
    assert_false(matches("a>5", "a=9223372036854775808"));
    assert_true(matches("a<5", "a=-9223372036854775808"));
    assert_false(matches("a<5", "a=-9223372036854775809"));
    assert_true(matches("a>007", "a=8"));
}

static void keywords_are_words_where_no_operator_can_be(void **state)
{
    (void)state;
    assert_true(matches("in in (in)", "in=in"));
    assert_true(matches("notin notin (notin)", "notin=in"));
    assert_true(matches("in", "in=1"));
    assert_true(matches("!notin", "in=1"));
    assert_true(matches("a=in,in=notin", "a=in,in=notin"));
    assert_true(matches("in notin (in,notin)", "in=x"));
}

static void white_space_is_allowed_between_tokens(void **state)
{
    (void)state;
    assert_true(matches("\ta\n=\r1 , b in(x)", "a=1,b=x"));
    assert_true(matches("a = ,b", "a=,b=1"));
    assert_true(matches("example.com/a-b_c.d=A-1_z.Z", "example.com/a-b_c.d=A-1_z.Z"));
}

static void requirements_of_one_key_all_count(void **state)
{
    (void)state;
    assert_true(matches("a!=1,a!=2,a", "a=3"));
    assert_false(matches("a!=1,a!=2,a", "a=2"));
    assert_false(matches("a=1,a=2", "a=1"));
    assert_true(matches("c=3,a=1,b=2", "a=1,b=2,c=3"));
    assert_true(matches("a>1,a<3", "a=2"));
}

static void a_label_without_a_value_is_absent(void **state)
{
    (void)state;
    struct kube_label label = {.key = belfry_bytes_str("a")};
    struct kube_attributes attributes = {.labels = &label, .n_labels = 1};
    struct kube_selector *there = must_read("a", ""), *absent = must_read("!a,a!=,a notin (x,y)", "");
    assert_false(kube_selector_matches(there, &attributes));
    assert_true(kube_selector_matches(absent, &attributes));
    kube_selector_unref(there);
    kube_selector_unref(absent);
}

static void what_is_no_label_selector_says_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *labels, *message;
    } cases[] = {
        {",", "found ',', expected: !, identifier, or 'end of string'"},
        {"=", "found '=', expected: !, identifier, or 'end of string'"},
        {"a,", "found '', expected: identifier after ','"},
        {"a,,b", "found ',', expected: identifier after ','"},
        {"a=1,=", "found '=', expected: identifier after ','"},
        {"!a=1", "found '=', expected: ',' or 'end of string'"},
        {"a=1 b", "found 'b', expected: ',' or 'end of string'"},
        {"a in (1))", "found ')', expected: ',' or 'end of string'"},
        {"!", "unable to parse requirement: found '', expected: identifier"},
        {"!!a", "unable to parse requirement: found '!', expected: identifier"},
        {"a==", NULL},
        {"a===1", "unable to parse requirement: found '=', expected: identifier"},
        {"a=!b", "unable to parse requirement: found '!', expected: identifier"},
        {"a=(b)", "unable to parse requirement: found '(', expected: identifier"},
        {"a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"},
        {"a (b)", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"},
        {"a !b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"},
        {"a IN (b)", "unable to parse requirement: found 'IN', expected: in, notin, =, ==, !=, gt, lt"},
        {"a in", "unable to parse requirement: found '', expected: '('"},
        {"a in b", "unable to parse requirement: found 'b', expected: '('"},
        {"a in (", "unable to parse requirement: found '', expected: ',' or ')'"},
        {"a in (b", "unable to parse requirement: found '', expected: ',' or ')'"},
        {"a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"},
        {"a in (=)", "unable to parse requirement: found '=', expected: ',' or ')'"},
        {"a>x", "unable to parse requirement: values[0][a]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value "
                "must be an integer"},
        {"a<", "unable to parse requirement: values[0][a]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value "
               "must be an integer"},
        {"a>9223372036854775808",
         "unable to parse requirement: values[0][a]: Invalid value: \"9223372036854775808\": for 'Gt', 'Lt' operators, "
         "the value must be an integer"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].message == NULL)
            assert_true(matches(cases[i].labels, "a="));
        else
            assert_refused(cases[i].labels, "", cases[i].message);
    }
}

static bool label_key_is_legal(const char *key)
{
    struct kube_selector *selector;
    struct kube_status status;
    enum belfry_err err =
        kube_selector_read(belfry_bytes_str(key), (struct belfry_bytes){0}, &namespaced, &version, &selector, &status);
    if (err == BELFRY_OK) {
        kube_selector_unref(selector);
        return true;
    }
    assert_int_equal(err, BELFRY_ERR_INVALID);
    assert_non_null(strstr(status.message, "Invalid value"));
    return false;
}

static void keys_are_qualified_names(void **state)
{
    (void)state;
    char text[400];
    static const char *const good[] = {"a", "A1", "a.b_c-d", "x/a", "x.y-1.z/A"};
    static const char *const bad[] = {"-a", "a-", "a/", "/a", "a/b/c", "A.b/c", "x..y/a", "x-/a", "a\xC3\xA4", "a#b"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(label_key_is_legal(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(label_key_is_legal(bad[i]));
    snprintf(text, sizeof(text), "%063d", 0);
    assert_true(label_key_is_legal(text));
    snprintf(text, sizeof(text), "%064d", 0);
    assert_false(label_key_is_legal(text));
    snprintf(text, sizeof(text), "%0253d/%063d", 0, 0);
    assert_true(label_key_is_legal(text));
    snprintf(text, sizeof(text), "%0254d/a", 0);
    assert_false(label_key_is_legal(text));
    assert_refused("a/", "", "unable to parse requirement: <nil>: Invalid value: \"a/\": name part must be non-empty");
}

static void values_are_labels(void **state)
{
    (void)state;
    char text[200];
    snprintf(text, sizeof(text), "a=%063d", 0);
    assert_false(matches(text, ""));
    snprintf(text, sizeof(text), "a=%064d", 0);
    char message[300];
    snprintf(message, sizeof(message),
             "unable to parse requirement: values[0][a]: Invalid value: \"%064d\": must be no more than 63 characters",
             0);
    assert_refused(text, "", message);
    assert_refused("a in (b,-c)", "",
                   "unable to parse requirement: values[1][a]: Invalid value: \"-c\": a valid label must be an empty "
                   "string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                   "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                   "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')");
}

static void a_message_is_text_whatever_was_asked(void **state)
{
    (void)state;
    struct kube_selector *selector;
    struct kube_status status;
    char labels[400];
    memset(labels, '\xff', sizeof(labels));
    memset(labels, 'a', 100);
    labels[100] = '=';
    assert_int_equal(kube_selector_read(belfry_bytes_of(labels, sizeof(labels)), (struct belfry_bytes){0}, &namespaced,
                                        &version, &selector, &status),
                     BELFRY_ERR_INVALID);
    assert_true(belfry_utf8_valid(status.message, strlen(status.message)));
    assert_refused_bytes(belfry_bytes_of("a \0b", 4), (struct belfry_bytes){0},
                         "unable to parse requirement: found '?b', expected: in, notin, =, ==, !=, gt, lt");
}

/* ---- fields ---- */

static void fields_are_compared_as_text(void **state)
{
    (void)state;
    assert_true(field_matches("spec.color=blue", "ns", "n", "blue"));
    assert_true(field_matches("spec.color==blue", "ns", "n", "blue"));
    assert_false(field_matches("spec.color=blue", "ns", "n", "red"));
    assert_false(field_matches("spec.color!=blue", "ns", "n", "blue"));
    assert_true(field_matches("spec.color!=blue", "ns", "n", ""));
    assert_true(field_matches("spec.color=", "ns", "n", ""));
    assert_true(field_matches("spec.color= blue", "ns", "n", " blue"));
    assert_true(field_matches(",metadata.name=n,,metadata.namespace=ns,", "ns", "n", ""));
    assert_false(field_matches("metadata.name=n,metadata.namespace=ns", "other", "n", ""));
    assert_false(field_matches("metadata.name!=n", "ns", "n", ""));
}

static void an_unset_field_is_empty_even_without_data(void **state)
{
    (void)state;
    struct kube_selector *empty = must_read("", "spec.size="), *other = must_read("", "spec.size!=");
    assert_true(kube_selector_matches(empty, &(struct kube_attributes){0}));
    assert_false(kube_selector_matches(other, &(struct kube_attributes){0}));
    kube_selector_unref(empty);
    kube_selector_unref(other);
}

static void field_values_are_escaped(void **state)
{
    (void)state;
    assert_true(field_matches("spec.color=a\\,b\\=c\\\\d", "ns", "n", "a,b=c\\d"));
    assert_true(field_matches("spec.color=a\\,,metadata.name=n", "ns", "n", "a,"));
    assert_true(field_matches("spec.color=\\\\,metadata.name=n", "ns", "n", "\\"));
    assert_true(field_matches("spec.color=!", "ns", "n", "!"));
    assert_true(field_matches("spec.color=a b\xC3\xA4", "ns", "n", "a b\xC3\xA4"));
}

static void what_is_no_field_selector_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *message;
    } cases[] = {
        {"spec.color", "invalid field selector: can't understand 'spec.color'"},
        {"metadata.name=x,!y", "invalid field selector: can't understand '!y'"},
        {"spec.color in (a,b)", "invalid field selector: can't understand 'spec.color in (a'"},
        {"spec.color=a=b", "invalid field selector: unescaped character in value: ="},
        {"spec.color===b", "invalid field selector: unescaped character in value: ="},
        {"spec.color=a\\b", "invalid field selector: invalid escape sequence: \\b"},
        {"spec.color=a\\", "invalid field selector: invalid escape sequence: \\"},
        {"=x", "field label not supported:  (supported: metadata.name, metadata.namespace, spec.color, spec.size)"},
        {"spec.weight=1", "field label not supported: spec.weight (supported: metadata.name, metadata.namespace, "
                          "spec.color, spec.size)"},
        {" spec.color=1", "field label not supported:  spec.color (supported: metadata.name, metadata.namespace, "
                          "spec.color, spec.size)"},
        {"a\\,spec.color=1", "field label not supported: a\\,spec.color (supported: metadata.name, metadata.namespace, "
                             "spec.color, spec.size)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_refused("", cases[i].fields, cases[i].message);
}

static void a_type_may_refuse_the_namespace(void **state)
{
    (void)state;
    struct kube_version bare = {.no_namespace = true};
    struct kube_selector *selector;
    struct kube_status status;
    assert_int_equal(kube_selector_read((struct belfry_bytes){0}, belfry_bytes_str("metadata.namespace=a"), &namespaced,
                                        &bare, &selector, &status),
                     BELFRY_ERR_INVALID);
    assert_string_equal(status.message, "field label not supported: metadata.namespace (supported: metadata.name)");
    assert_int_equal(kube_selector_read((struct belfry_bytes){0}, belfry_bytes_str("metadata.name=a"), &namespaced,
                                        &bare, &selector, &status),
                     BELFRY_OK);
    kube_selector_unref(selector);
}

static void assert_unknown(const char *text, const char *expected)
{
    struct belfry_bytes unknown = kube_selector_unknown_field(belfry_bytes_str(text), &version);
    if (expected == NULL)
        assert_null(unknown.data);
    else
        assert_true(belfry_bytes_equal(unknown, belfry_bytes_str(expected)));
}

static void the_first_unknown_field_is_named(void **state)
{
    (void)state;
    assert_unknown("", NULL);
    assert_unknown("spec.color=a,,metadata.name!=b,metadata.namespace==c", NULL);
    assert_unknown("spec.color=a\\,b,spec.weight!=None,spec.height=1", "spec.weight");
    assert_unknown(",=x", "");
    assert_unknown("spec.color=a,!x,spec.weight=1", NULL); /* no field selector */
}

static void long_field_names_leave_the_message_whole(void **state)
{
    (void)state;
    static char names[KUBE_FIELDS_MAX][201];
    struct kube_field many[KUBE_FIELDS_MAX];
    for (size_t i = 0; i < KUBE_FIELDS_MAX; i++) {
        memset(names[i], 'a' + (int)i, 200);
        many[i] = (struct kube_field){.name = names[i]};
    }
    struct kube_version wide = {.fields = many, .n_fields = KUBE_FIELDS_MAX};
    struct kube_selector *selector;
    struct kube_status status;
    assert_int_equal(
        kube_selector_read((struct belfry_bytes){0}, belfry_bytes_str("x=y"), &namespaced, &wide, &selector, &status),
        BELFRY_ERR_INVALID);
    assert_non_null(strstr(status.message, names[0]));
    assert_null(strchr(status.message, 'b' + 6));
    assert_int_equal(status.message[strlen(status.message) - 1], ')');
}

/* ---- quotes in messages ---- */

/* The quote of a field's name, which may be any bytes without an operator. */
static const char *quoted(struct belfry_bytes name)
{
    static const char before[] = "field label not supported: ", after[] = " (supported: ";
    static struct kube_status status;
    struct kube_selector *selector;
    char text[512];
    assert_true(name.len + 2 <= sizeof(text));
    if (name.len > 0)
        memcpy(text, name.data, name.len);
    memcpy(text + name.len, "=x", 2);
    assert_int_equal(kube_selector_read(belfry_bytes_str(""), belfry_bytes_of(text, name.len + 2), &namespaced,
                                        &version, &selector, &status),
                     BELFRY_ERR_INVALID);
    assert_memory_equal(status.message, before, strlen(before));
    char *end = strstr(status.message, after);
    assert_non_null(end);
    *end = '\0';
    return status.message + strlen(before);
}

static void a_quote_has_the_text_of_its_bytes(void **state)
{
    (void)state;
    assert_string_equal(quoted(belfry_bytes_str("")), "");
    assert_string_equal(quoted(belfry_bytes_str("a b\xC3\xA4")), "a b\xC3\xA4");
    assert_string_equal(quoted(belfry_bytes_of("a\0\n\x7f\xff\xC3", 6)), "a?????");
}

#define QUOTE_MAX 80 /* with its last zero */

static void a_long_quote_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        char text[300];
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 <= sizeof(text); i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 3);
        const char *quote = quoted(belfry_bytes_of(text, shift + (sizeof(text) - shift) / 3 * 3));
        size_t len = strlen(quote);
        assert_true(len < QUOTE_MAX && len > QUOTE_MAX - 7);
        assert_string_equal(quote + len - 3, "...");
        assert_true(belfry_utf8_valid(quote, len));
    }
}

static void a_quote_that_just_fits_is_whole(void **state)
{
    (void)state;
    char text[QUOTE_MAX];
    memset(text, 'x', sizeof(text));
    assert_int_equal(strlen(quoted(belfry_bytes_of(text, QUOTE_MAX - 4))), QUOTE_MAX - 4);
    assert_null(strstr(quoted(belfry_bytes_of(text, QUOTE_MAX - 4)), "..."));
    assert_non_null(strstr(quoted(belfry_bytes_of(text, QUOTE_MAX - 3)), "..."));
}

/* ---- what every match has ---- */

static void assert_name(const char *fields_text, const char *name, bool nothing)
{
    struct kube_selector *selector = must_read("", fields_text);
    bool is_nothing = !nothing;
    struct belfry_bytes pinned = kube_selector_name(selector, &is_nothing);
    assert_int_equal(is_nothing, nothing);
    assert_true(nothing || (pinned.data == NULL) == (name == NULL));
    assert_true(nothing || name == NULL || belfry_bytes_equal(pinned, belfry_bytes_str(name)));
    kube_selector_unref(selector);
}

static void a_name_is_pinned(void **state)
{
    (void)state;
    assert_name("metadata.name=x", "x", false);
    assert_name("metadata.name==x,metadata.name=x", "x", false);
    assert_name("metadata.name=x,metadata.name=y", NULL, true);
    assert_name("metadata.name=x,metadata.name=y,metadata.name=x", NULL, true);
    assert_name("metadata.name=", NULL, true);
    assert_name("metadata.name!=x", NULL, false);
    assert_name("metadata.namespace=x,spec.color=y", NULL, false);
    assert_name("", NULL, false);
}

static void assert_namespace(const struct kube_resource *resource, const char *fields_text, const char *namespace,
                             bool nothing)
{
    struct kube_selector *selector;
    struct kube_status status;
    assert_int_equal(kube_selector_read((struct belfry_bytes){0}, belfry_bytes_str(fields_text), resource, &version,
                                        &selector, &status),
                     BELFRY_OK);
    bool is_nothing = !nothing;
    struct belfry_bytes pinned = kube_selector_namespace(selector, &is_nothing);
    assert_int_equal(is_nothing, nothing);
    assert_true(nothing || (pinned.data == NULL) == (namespace == NULL));
    assert_true(nothing || namespace == NULL || belfry_bytes_equal(pinned, belfry_bytes_str(namespace)));
    kube_selector_unref(selector);
}

static void a_namespace_is_pinned_where_there_are_any(void **state)
{
    (void)state;
    assert_namespace(&namespaced, "metadata.namespace=x", "x", false);
    assert_namespace(&namespaced, "metadata.namespace=x,metadata.namespace=y", NULL, true);
    assert_namespace(&namespaced, "metadata.namespace=", NULL, true);
    assert_namespace(&namespaced, "metadata.name=x", NULL, false);
    assert_namespace(&cluster, "metadata.namespace=", "", false);
    assert_namespace(&cluster, "metadata.namespace=x", NULL, true);
}

static void assert_pin(const char *labels, const char *fields_text, struct kube_pin expected)
{
    struct kube_selector *selector = must_read(labels, fields_text);
    struct kube_pin pin;
    assert_true(kube_selector_pin(selector, &pin));
    assert_int_equal(pin.is_field, expected.is_field);
    assert_int_equal(pin.field, expected.field);
    assert_true(belfry_bytes_equal(pin.label, expected.label));
    assert_non_null(pin.value.data);
    assert_true(belfry_bytes_equal(pin.value, expected.value));
    kube_selector_unref(selector);
}

static void an_equality_is_a_pin(void **state)
{
    (void)state;
    struct kube_pin b1 = {.label = belfry_bytes_str("b"), .value = belfry_bytes_str("1")};
    assert_pin("a!=2,b=1,c", "metadata.name=x", b1);
    assert_pin("b in (1)", "", b1);
    assert_pin("b in (1,1),a in (x,y)", "spec.color!=z", b1);
    assert_pin("b=", "", (struct kube_pin){.label = belfry_bytes_str("b"), .value = belfry_bytes_str("")});
    assert_pin("b=1", "spec.size=3", (struct kube_pin){.is_field = true, .field = 1, .value = belfry_bytes_str("3")});
    assert_pin("", "spec.color=", (struct kube_pin){.is_field = true, .field = 0, .value = belfry_bytes_str("")});
}

static void without_an_equality_there_is_no_pin(void **state)
{
    (void)state;
    static const char *const none[] = {"", "a", "!a", "a!=1", "a in (1,2)", "a notin (1)", "a>1,a<3"};
    struct kube_pin pin;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        struct kube_selector *selector = must_read(none[i], "metadata.name=x,metadata.namespace=y,spec.color!=z");
        assert_false(kube_selector_pin(selector, &pin));
        kube_selector_unref(selector);
    }
}

/* ---- text, bounds, memory ---- */

static void the_text_is_canonical(void **state)
{
    (void)state;
    assert_text("b == 1 , a in ( z,y,z ),!d,c", "", "labelSelector=a in (y,z),b=1,c,!d");
    assert_text("a in (x),b notin (y),c notin (,x)", "", "labelSelector=a=x,b!=y,c notin (,x)");
    assert_text("a>007,a<9,a", "", "labelSelector=a>007,a<9,a");
    assert_text("", "spec.size!=\\,\\=\\\\,metadata.name==x", "fieldSelector=metadata.name=x,spec.size!=\\,\\=\\\\");
    assert_text("a=", "spec.color=", "labelSelector=a=&fieldSelector=spec.color=");
}

struct text_pair {
    struct belfry_bytes labels, fields;
};

static struct text_pair split_text(struct belfry_bytes text)
{
    static const char label_lead[] = "labelSelector=", field_lead[] = "fieldSelector=";
    struct text_pair pair = {0};
    if (belfry_bytes_begins(text, belfry_bytes_str(label_lead))) {
        const char *at = text.data + sizeof(label_lead) - 1;
        const char *end = memchr(at, '&', (size_t)(text.data + text.len - at));
        end = end == NULL ? text.data + text.len : end;
        pair.labels = belfry_bytes_of(at, (size_t)(end - at));
        end += end < text.data + text.len;
        text = belfry_bytes_of(end, (size_t)(text.data + text.len - end));
    }
    if (text.len > 0) {
        assert_true(belfry_bytes_begins(text, belfry_bytes_str(field_lead)));
        pair.fields = belfry_bytes_of(text.data + sizeof(field_lead) - 1, text.len - sizeof(field_lead) + 1);
    }
    return pair;
}

static const char *const words[] = {"", "a", "b", "in", "1", "5", "12", "x/y"};

static const char *pick(struct belfry_rng *rng, const char *const *from, size_t n)
{
    return from[belfry_rng_below(rng, n)];
}

static void random_labels(struct belfry_rng *rng, char *text, size_t size)
{
    static const char *const keys[] = {"a", "b", "in", "x/y"}, *const values[] = {"", "a", "1", "5", "12", "in"};
    static const struct {
        const char *lead, *operator, * end;
        size_t n_values;
    } forms[] = {{"", "=", "", 1},      {"", "==", "", 1},     {"", "!=", "", 1},        {"", " in (", ")", 1},
                 {"", " in (", ")", 2}, {"", "in(,", ",)", 1}, {"", " notin (", ")", 2}, {"", "", "", 0},
                 {"! ", "", "", 0},     {"", " >5", "", 0},    {"", "<12", "", 0}};
    size_t len = 0, n = belfry_rng_below(rng, 4);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        size_t form = belfry_rng_below(rng, sizeof(forms) / sizeof(forms[0]));
        len += (size_t)snprintf(text + len, size - len, "%s%s%s %s", i == 0 ? "" : " ,", forms[form].lead,
                                pick(rng, keys, 4), forms[form].operator);
        for (size_t value = 0; value < forms[form].n_values; value++)
            len += (size_t)snprintf(text + len, size - len, "%s%s", value == 0 ? "" : ",", pick(rng, values, 6));
        len += (size_t)snprintf(text + len, size - len, "%s", forms[form].end);
    }
}

static void random_fields(struct belfry_rng *rng, char *text, size_t size)
{
    static const char *const keys[] = {"metadata.name", "metadata.namespace", "spec.color", "spec.size"};
    static const char *const operators[] = {"=", "==", "!="}, *const values[] = {"", "a", "1", "\\,", "\\\\", "a\\=b"};
    size_t len = 0, n = belfry_rng_below(rng, 3);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s%s%s", i == 0 ? "" : ",", pick(rng, keys, 4),
                                pick(rng, operators, 3), pick(rng, values, 6));
}

static void random_object(struct belfry_rng *rng, struct kube_label *labels, struct kube_attributes *out)
{
    static const char *const keys[] = {"a", "b", "in", "x/y"}, *const values[] = {"", "a", "1", ",", "\\", "a=b"};
    *out = (struct kube_attributes){.labels = labels};
    for (size_t i = 0; i < 4; i++) {
        if (belfry_rng_below(rng, 3) > 0)
            labels[out->n_labels++] =
                (struct kube_label){belfry_bytes_str(keys[i]), belfry_bytes_str(pick(rng, words, 8))};
    }
    out->name = belfry_bytes_str(pick(rng, values, 6));
    out->namespace = belfry_bytes_str(pick(rng, values, 6));
    out->fields[0] = belfry_bytes_str(pick(rng, values, 6));
    out->fields[1] = belfry_bytes_str(pick(rng, values, 6));
}

/* A match has what the selector says that every match has. */
static void check_pins(const struct kube_selector *selector, const struct kube_attributes *object)
{
    bool no_name, no_namespace;
    struct kube_pin pin;
    struct belfry_bytes name = kube_selector_name(selector, &no_name);
    assert_true(name.data == NULL || (!no_name && belfry_bytes_equal(name, object->name)) || object->name.len == 0);
    struct belfry_bytes namespace = kube_selector_namespace(selector, &no_namespace);
    assert_true(namespace.data == NULL || (!no_namespace && belfry_bytes_equal(namespace, object->namespace)) ||
                object->namespace.len == 0);
    if (!kube_selector_pin(selector, &pin))
        return;
    struct belfry_bytes value = {0};
    for (size_t i = 0; i < object->n_labels && !pin.is_field; i++) {
        if (belfry_bytes_equal(object->labels[i].key, pin.label))
            value = object->labels[i].value;
    }
    value = pin.is_field ? object->fields[pin.field] : value;
    assert_non_null(value.data);
    assert_true(belfry_bytes_equal(value, pin.value));
}

static void the_text_reads_as_a_selector_of_the_same_objects(void **state)
{
    (void)state;
    struct belfry_rng rng = {.state = 7};
    char labels[256], fields_text[256];
    size_t n_matches = 0;
    for (size_t round = 0; round < 3000; round++) {
        random_labels(&rng, labels, sizeof(labels));
        random_fields(&rng, fields_text, sizeof(fields_text));
        struct kube_selector *first = must_read(labels, fields_text), *again;
        struct kube_status status;
        struct belfry_bytes text = kube_selector_text(first);
        struct text_pair pair = split_text(text);
        assert_int_equal(kube_selector_read(pair.labels, pair.fields, &namespaced, &version, &again, &status),
                         BELFRY_OK);
        assert_true(belfry_bytes_equal(kube_selector_text(again), text));
        for (size_t i = 0; i < 20; i++) {
            struct kube_label list[4];
            struct kube_attributes object;
            random_object(&rng, list, &object);
            bool does = kube_selector_matches(first, &object);
            assert_int_equal(does, kube_selector_matches(again, &object));
            if (does)
                check_pins(first, &object);
            n_matches += does;
        }
        kube_selector_unref(first);
        kube_selector_unref(again);
    }
    assert_in_range(n_matches, 3000, 57000); /* of 60,000: neither all nor none */
}

static char *repeat(const char *first, const char *more, size_t n, size_t *len)
{
    size_t first_len = strlen(first), more_len = strlen(more);
    char *text = malloc(first_len + n * more_len + 2);
    assert_non_null(text);
    memcpy(text, first, first_len);
    for (size_t i = 0; i < n; i++)
        memcpy(text + first_len + i * more_len, more, more_len);
    *len = first_len + n * more_len;
    return text;
}

static void assert_bounded(const char *first, const char *more, size_t n, const char *end, const char *message)
{
    size_t len;
    struct kube_selector *selector;
    struct kube_status status;
    char *text = repeat(first, more, n, &len);
    memcpy(text + len, end, strlen(end));
    assert_int_equal(kube_selector_read(belfry_bytes_of(text, len + strlen(end)), (struct belfry_bytes){0}, &namespaced,
                                        &version, &selector, &status),
                     BELFRY_OK);
    kube_selector_unref(selector);
    free(text);
    text = repeat(first, more, n + 1, &len);
    memcpy(text + len, end, strlen(end));
    assert_refused_bytes(belfry_bytes_of(text, len + strlen(end)), (struct belfry_bytes){0}, message);
    free(text);
}

static void what_a_peer_can_make_grow_is_bounded(void **state)
{
    (void)state;
    assert_bounded("a", ",a", KUBE_TERMS_MAX - 1, "", "a selector may have no more than 256 requirements");
    assert_bounded("a in (", "b,", KUBE_VALUES_MAX - 1, ")", "a selector may have no more than 4096 values");
    assert_bounded("a", " ", KUBE_SELECTOR_MAX - 1, "", "a selector may be no longer than 65536 bytes");
}

static void terms_of_labels_and_fields_are_counted_together(void **state)
{
    (void)state;
    size_t labels_len, fields_len;
    char *labels = repeat("a", ",a", 127, &labels_len);
    char *many = repeat("metadata.name=a", ",metadata.name=a", 128, &fields_len);
    assert_refused_bytes(belfry_bytes_of(labels, labels_len), belfry_bytes_of(many, fields_len),
                         "a selector may have no more than 256 requirements");
    free(labels);
    free(many);
    char *commas = repeat(",", ",", KUBE_SELECTOR_MAX, &fields_len);
    assert_refused_bytes((struct belfry_bytes){0}, belfry_bytes_of(commas, fields_len),
                         "a selector may be no longer than 65536 bytes");
    free(commas);
}

static void a_selector_lives_as_long_as_somebody_holds_it(void **state)
{
    (void)state;
    struct kube_selector *selector = must_read("a=1", "");
    assert_ptr_equal(kube_selector_ref(selector), selector);
    kube_selector_unref(selector);
    assert_int_equal(kube_selector_text(selector).len, strlen("labelSelector=a=1"));
    kube_selector_unref(selector);
    kube_selector_unref(NULL);
    assert_int_equal(refuse_held(), 0);
}

static enum belfry_err read_one(void)
{
    struct kube_selector *selector;
    struct kube_status status;
    enum belfry_err err = kube_selector_read(belfry_bytes_str("a in (1,2),b"), belfry_bytes_str("metadata.name=x"),
                                             &namespaced, &version, &selector, &status);
    if (err == BELFRY_OK)
        kube_selector_unref(selector);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(read_one), 2); /* the selector and its text */
}

static void matching_allocates_nothing(void **state)
{
    (void)state;
    struct kube_label labels[] = {{belfry_bytes_str("a"), belfry_bytes_str("2")}};
    struct kube_attributes object = {.labels = labels, .n_labels = 1, .name = belfry_bytes_str("x")};
    struct kube_selector *selector = must_read("a in (1,2),a>1,!b", "metadata.name=x");
    refuse_begin(0);
    bool does = kube_selector_matches(selector, &object);
    assert_false(refuse_end());
    assert_true(does);
    kube_selector_unref(selector);
}

static void a_refused_selector_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_refused("a=1,", "", "found '', expected: identifier after ','");
    assert_refused("a=1", "b", "invalid field selector: can't understand 'b'");
    assert_int_equal(refuse_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_requirement_is_everything),
        cmocka_unit_test(equality_needs_the_key_and_its_contrary_does_not),
        cmocka_unit_test(sets_need_the_key_and_their_contrary_does_not),
        cmocka_unit_test(a_set_may_hold_the_empty_value),
        cmocka_unit_test(a_key_alone_is_asked_to_be_there_or_not),
        cmocka_unit_test(numbers_are_compared_as_int64),
        cmocka_unit_test(keywords_are_words_where_no_operator_can_be),
        cmocka_unit_test(white_space_is_allowed_between_tokens),
        cmocka_unit_test(requirements_of_one_key_all_count),
        cmocka_unit_test(a_label_without_a_value_is_absent),
        cmocka_unit_test(what_is_no_label_selector_says_what_was_expected),
        cmocka_unit_test(keys_are_qualified_names),
        cmocka_unit_test(values_are_labels),
        cmocka_unit_test(a_message_is_text_whatever_was_asked),
        cmocka_unit_test(fields_are_compared_as_text),
        cmocka_unit_test(an_unset_field_is_empty_even_without_data),
        cmocka_unit_test(field_values_are_escaped),
        cmocka_unit_test(what_is_no_field_selector_is_refused),
        cmocka_unit_test(a_type_may_refuse_the_namespace),
        cmocka_unit_test(the_first_unknown_field_is_named),
        cmocka_unit_test(long_field_names_leave_the_message_whole),
        cmocka_unit_test(a_quote_has_the_text_of_its_bytes),
        cmocka_unit_test(a_long_quote_is_cut_between_characters),
        cmocka_unit_test(a_quote_that_just_fits_is_whole),
        cmocka_unit_test(a_name_is_pinned),
        cmocka_unit_test(a_namespace_is_pinned_where_there_are_any),
        cmocka_unit_test(an_equality_is_a_pin),
        cmocka_unit_test(without_an_equality_there_is_no_pin),
        cmocka_unit_test(the_text_is_canonical),
        cmocka_unit_test(the_text_reads_as_a_selector_of_the_same_objects),
        cmocka_unit_test(what_a_peer_can_make_grow_is_bounded),
        cmocka_unit_test(terms_of_labels_and_fields_are_counted_together),
        cmocka_unit_test(a_selector_lives_as_long_as_somebody_holds_it),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(matching_allocates_nothing),
        cmocka_unit_test(a_refused_selector_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
