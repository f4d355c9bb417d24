/* src/net/tls_name_test.c */
#include "net/tls_name.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char name[BELFRY_TLS_NAME_BYTES], why[BELFRY_TLS_NAME_WHY];

static void add_cn(X509 *cert, int type, const char *text, int len)
{
    assert_int_equal(X509_NAME_add_entry_by_NID(X509_get_subject_name(cert), NID_commonName, type,
                                                (const unsigned char *)text, len, -1, 0),
                     1);
}

static X509 *cert_of(const char *const *common_names)
{
    X509 *cert = X509_new();
    assert_non_null(cert);
    for (; *common_names != NULL; common_names++)
        add_cn(cert, V_ASN1_UTF8STRING, *common_names, -1);
    return cert;
}

static void add_alternatives(X509 *cert, const char *text)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, NULL, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, text);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static void assert_name(X509 *cert, enum belfry_tls_name type, const char *expected)
{
    if (!belfry_tls_name_read(cert, type, name, why))
        fail_msg("%s", why);
    assert_string_equal(name, expected);
    assert_int_equal(ERR_peek_error(), 0);
}

static void assert_unusable(X509 *cert, enum belfry_tls_name type, const char *part)
{
    assert_false(belfry_tls_name_read(cert, type, name, why));
    if (strstr(why, part) == NULL)
        fail_msg("%s", why);
    assert_int_equal(ERR_peek_error(), 0);
}

static void last_common_name_counts_as_in_etcd(void **state)
{
    (void)state;
    const char *const none[] = {NULL}, *const one[] = {"alice", NULL}, *const two[] = {"root", "alice", NULL};
    X509 *cert = cert_of(none);
    assert_name(cert, BELFRY_TLS_NAME_CN, "");
    X509_free(cert);
    cert = cert_of(one);
    assert_name(cert, BELFRY_TLS_NAME_CN, "alice");
    X509_free(cert);
    cert = cert_of(two);
    assert_name(cert, BELFRY_TLS_NAME_CN, "alice");
    X509_free(cert);
}

static void name_that_cannot_be_shown_as_it_is_is_not_usable(void **state)
{
    (void)state;
    static const struct {
        int type;
        const char *text;
        int len;
        const char *part;
    } rows[] = {{V_ASN1_UTF8STRING, "a\0b", 3, "control character"},
                {V_ASN1_UTF8STRING, "a\nb", 3, "control character"},
                {V_ASN1_UTF8STRING, "a\"b", 3, "quote"},
                {V_ASN1_UTF8STRING, "\xff\xfe", 2, "cannot be read"},
                {V_ASN1_T61STRING, "\xe9", 1, "T61String"}};
    const char *const none[] = {NULL};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        X509 *cert = cert_of(none);
        add_cn(cert, rows[i].type, rows[i].text, rows[i].len);
        assert_unusable(cert, BELFRY_TLS_NAME_CN, rows[i].part);
        X509_free(cert);
    }
    X509 *cert = cert_of(none);
    add_cn(cert, V_ASN1_T61STRING, "old", 3);
    assert_name(cert, BELFRY_TLS_NAME_CN, "old");
    X509_free(cert);
}

static void name_over_255_bytes_is_not_cut(void **state)
{
    (void)state;
    char text[8 + 257] = "URI:x:";
    const char *const none[] = {NULL};
    memset(text + 6, 'y', 253);
    X509 *cert = cert_of(none);
    add_alternatives(cert, text);
    assert_name(cert, BELFRY_TLS_NAME_URI, text + 4);
    X509_free(cert);
    text[6 + 253] = 'y';
    cert = cert_of(none);
    add_alternatives(cert, text);
    assert_unusable(cert, BELFRY_TLS_NAME_URI, "over 255 bytes");
    X509_free(cert);
}

static void only_alternative_name_of_its_type_counts(void **state)
{
    (void)state;
    const char *const cn[] = {"alice", NULL};
    X509 *cert = cert_of(cn);
    assert_name(cert, BELFRY_TLS_NAME_URI, "");
    add_alternatives(cert, "IP:127.0.0.1,URI:spiffe://t/ns/a,DNS:a.test,DNS:b.test");
    assert_name(cert, BELFRY_TLS_NAME_URI, "spiffe://t/ns/a");
    assert_unusable(cert, BELFRY_TLS_NAME_DNS, "DNS name in the client's certificate is not the only one");
    assert_name(cert, BELFRY_TLS_NAME_CN, "alice");
    X509_free(cert);
    cert = cert_of(cn);
    add_alternatives(cert, "DNS:a.test");
    assert_name(cert, BELFRY_TLS_NAME_DNS, "a.test");
    assert_name(cert, BELFRY_TLS_NAME_URI, "");
    X509_free(cert);
}

static void extension_that_cannot_be_read_is_not_taken_for_none(void **state)
{
    (void)state;
    const char *const none[] = {NULL};
    X509 *cert = cert_of(none);
    ASN1_OCTET_STRING *bytes = ASN1_OCTET_STRING_new();
    assert_int_equal(ASN1_OCTET_STRING_set(bytes, (const unsigned char *)"\x30\x05\x86", 3), 1);
    X509_EXTENSION *extension = X509_EXTENSION_create_by_NID(NULL, NID_subject_alt_name, 0, bytes);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
    ASN1_OCTET_STRING_free(bytes);
    assert_unusable(cert, BELFRY_TLS_NAME_DNS, "cannot be read");
    X509_free(cert);
    cert = cert_of(none);
    add_alternatives(cert, "DNS:a.test");
    add_alternatives(cert, "DNS:b.test"); /* the extension twice */
    assert_unusable(cert, BELFRY_TLS_NAME_DNS, "cannot be read");
    X509_free(cert);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_common_name_counts_as_in_etcd),
        cmocka_unit_test(name_that_cannot_be_shown_as_it_is_is_not_usable),
        cmocka_unit_test(name_over_255_bytes_is_not_cut),
        cmocka_unit_test(only_alternative_name_of_its_type_counts),
        cmocka_unit_test(extension_that_cannot_be_read_is_not_taken_for_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
