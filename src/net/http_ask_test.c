/* src/net/http_ask_test.c: what may be asked, and how it reads on the wire. */
#include "net/http_ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/refuse.h"

static const struct belfry_http_origin origin = {"https", "kube.test:6443"};

static struct belfry_http_field field_of(const char *name, const char *value)
{
    return (struct belfry_http_field){belfry_bytes_str(name), belfry_bytes_str(value)};
}

static enum belfry_err create(const char *method, const char *target, const struct belfry_http_field *fields, size_t n,
                              struct belfry_http_ask **out)
{
    struct belfry_http_ask_opts opts = {
        .method = belfry_bytes_str(method), .target = belfry_bytes_str(target), .more = fields, .n_more = n};
    return belfry_http_ask_create(&opts, out);
}

static enum belfry_err try(const char *method, const char *target, struct belfry_http_field field)
{
    struct belfry_http_ask *ask = NULL;
    enum belfry_err err = create(method, target, &field, 1, &ask);
    assert_int_equal(err == BELFRY_OK, ask != NULL);
    belfry_http_ask_destroy(ask);
    return err;
}

static void whatever_could_split_a_request_is_refused(void **state)
{
    (void)state;
    static const struct belfry_http_field fine = {{"accept", 6}, {"*/*", 3}};
    static const struct {
        const char *method, *target;
    } heads[] = {
        {"", "/"},        {"GE T", "/"},         {"GET\r\n", "/"},  {"GET", ""},      {"GET", "api"},
        {"GET", "/ "},    {"GET", "/a b"},       {"GET", "/a\r\n"}, {"GET", "/\x7f"}, {"GET", "/\x01"},
        {"GET", "/a\tb"}, {"GET", "http://a/b"}, {"GET", "*"},
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        assert_int_equal(try(heads[i].method, heads[i].target, fine), BELFRY_ERR_INVALID);
    for (unsigned c = 0; c < 256; c++) {
        char name[] = {'a', (char)c, 'b'}, value[] = {'a', (char)c, 'b'};
        struct belfry_http_field field = {{name, 3}, {"v", 1}};
        bool token = c > ' ' && c < 0x7f && strchr("\"(),/:;<=>?@[\\]{}", (int)c) == NULL;
        assert_int_equal(try("GET", "/", field), token ? BELFRY_OK : BELFRY_ERR_INVALID);
        field = (struct belfry_http_field){{"n", 1}, {value, 3}};
        bool text = c == '\t' || (c >= ' ' && c != 0x7f);
        assert_int_equal(try("GET", "/", field), text ? BELFRY_OK : BELFRY_ERR_INVALID);
    }
}

static void a_request_is_bounded(void **state)
{
    (void)state;
    static char target[BELFRY_HTTP_ASK_BYTES];
    memset(target, 'a', sizeof(target) - 1);
    target[0] = '/';
    assert_int_equal(try("GET", target, field_of("a", "b")), BELFRY_ERR_INVALID);
    target[sizeof(target) - 400] = '\0';
    assert_int_equal(try("GET", target, field_of("a", "b")), BELFRY_OK);
    struct belfry_http_ask *ask;
    assert_int_equal(create("GET", "/", NULL, SIZE_MAX, &ask), BELFRY_ERR_INVALID);
    struct belfry_http_ask_opts both = {
        .method = belfry_bytes_str("GET"), .target = belfry_bytes_str("/"), .fields = NULL, .n_fields = SIZE_MAX};
    assert_int_equal(belfry_http_ask_create(&both, &ask), BELFRY_ERR_INVALID);
}

static void assert_field(const nghttp2_nv *nv, const char *name, const char *value, uint8_t flags)
{
    assert_true(belfry_bytes_equal(belfry_bytes_of(nv->name, nv->namelen), belfry_bytes_str(name)));
    assert_true(belfry_bytes_equal(belfry_bytes_of(nv->value, nv->valuelen), belfry_bytes_str(value)));
    assert_int_equal(nv->flags, flags);
}

static void it_is_told_as_either_version_wants_it(void **state)
{
    (void)state;
    struct belfry_http_field fields[] = {field_of("Accept", "application/json"), field_of("Authorization", "Bearer x"),
                                         field_of("empty", "")};
    struct belfry_http_field agent = field_of("user-agent", "belfry-test/1"), late = field_of("late", "now");
    struct belfry_http_ask_opts opts = {.method = belfry_bytes_str("GET"),
                                        .target = belfry_bytes_str("/api?watch=1"),
                                        .fields = &agent,
                                        .n_fields = 1,
                                        .more = fields,
                                        .n_more = 3};
    struct belfry_http_ask *ask;
    assert_int_equal(belfry_http_ask_create(&opts, &ask), BELFRY_OK);
    assert_true(belfry_http_ask_has_user(ask));
    assert_false(belfry_http_ask_is_head(ask));
    size_t n;
    const nghttp2_nv *nv = belfry_http_ask_fields(ask, &origin, &late, &n);
    assert_int_equal(n, 9);
    assert_field(&nv[8], "late", "now", 0);
    nv = belfry_http_ask_fields(ask, &origin, NULL, &n); /* asked again, for another connection */
    assert_int_equal(n, 8);
    assert_field(&nv[0], ":method", "GET", 0);
    assert_field(&nv[1], ":scheme", "https", 0);
    assert_field(&nv[2], ":path", "/api?watch=1", 0);
    assert_field(&nv[3], ":authority", "kube.test:6443", 0);
    assert_field(&nv[4], "user-agent", "belfry-test/1", 0);
    assert_field(&nv[5], "accept", "application/json", 0);
    assert_field(&nv[6], "authorization", "Bearer x", NGHTTP2_NV_FLAG_NO_INDEX);
    assert_field(&nv[7], "empty", "", 0);
    struct belfry_buf out = {0};
    assert_int_equal(belfry_http_ask_write(nv, n, &out), BELFRY_OK);
    const char *text = "GET /api?watch=1 HTTP/1.1\r\nhost: kube.test:6443\r\nuser-agent: belfry-test/1\r\n"
                       "accept: application/json\r\nauthorization: Bearer x\r\nempty: \r\n\r\n";
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&out), belfry_bytes_str(text)));
    belfry_buf_fini(&out);
    belfry_http_ask_destroy(ask);
}

static enum belfry_err scenario(void)
{
    struct belfry_http_field field = field_of("a", "b");
    struct belfry_http_ask *ask = NULL;
    struct belfry_buf out = {0};
    size_t n;
    enum belfry_err err = create("HEAD", "/", &field, 1, &ask);
    if (err == BELFRY_OK) {
        const nghttp2_nv *fields = belfry_http_ask_fields(ask, &origin, NULL, &n);
        err = belfry_http_ask_write(fields, n, &out);
    }
    if (err == BELFRY_OK)
        assert_true(belfry_http_ask_is_head(ask) && !belfry_http_ask_has_user(ask));
    belfry_http_ask_destroy(ask);
    belfry_buf_fini(&out);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_could_split_a_request_is_refused),
        cmocka_unit_test(a_request_is_bounded),
        cmocka_unit_test(it_is_told_as_either_version_wants_it),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
