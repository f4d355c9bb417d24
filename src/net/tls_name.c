/* src/net/tls_name.c */
#include "net/tls_name.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {
    [BELFRY_TLS_NAME_CN] = "common name", [BELFRY_TLS_NAME_URI] = "URI", [BELFRY_TLS_NAME_DNS] = "DNS name"};

static bool name_fail(enum belfry_tls_name type, const char *problem, char why[BELFRY_TLS_NAME_WHY])
{
    snprintf(why, BELFRY_TLS_NAME_WHY, "the %s in the client's certificate %s", type_names[type], problem);
    ERR_clear_error();
    return false;
}

static bool is_clean(const unsigned char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (name[i] < 0x20 || name[i] == 0x7f || name[i] == '"')
            return false;
    return true;
}

static bool is_ascii(const unsigned char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (name[i] >= 0x80)
            return false;
    return true;
}

static bool name_store(enum belfry_tls_name type, const unsigned char *name, int len, char out[BELFRY_TLS_NAME_BYTES],
                       char why[BELFRY_TLS_NAME_WHY])
{
    if (len < 0)
        return name_fail(type, "cannot be read", why);
    if (len >= BELFRY_TLS_NAME_BYTES)
        return name_fail(type, "is over 255 bytes", why);
    if (!is_clean(name, (size_t)len))
        return name_fail(type, "has a control character or a quote", why);
    memcpy(out, name, (size_t)len);
    out[len] = '\0';
    return true;
}

/* A T61String above ASCII is read in different ways by different programs. */
static bool read_common_name(const X509_NAME *subject, char out[BELFRY_TLS_NAME_BYTES], char why[BELFRY_TLS_NAME_WHY])
{
    int last = -1;
    for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;)
        last = at;
    if (last < 0)
        return true;
    const ASN1_STRING *value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, last));
    if (ASN1_STRING_type(value) == V_ASN1_T61STRING &&
        !is_ascii(ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value)))
        return name_fail(BELFRY_TLS_NAME_CN, "is a T61String that is not ASCII", why);
    unsigned char *name = NULL;
    int len = ASN1_STRING_to_UTF8(&name, value);
    bool usable = name_store(BELFRY_TLS_NAME_CN, name, len, out, why);
    OPENSSL_free(name);
    return usable;
}

static bool read_alternative(const GENERAL_NAMES *names, enum belfry_tls_name type, char out[BELFRY_TLS_NAME_BYTES],
                             char why[BELFRY_TLS_NAME_WHY])
{
    int wanted = type == BELFRY_TLS_NAME_URI ? GEN_URI : GEN_DNS;
    const ASN1_STRING *found = NULL;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int is = 0;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &is);
        if (is != wanted)
            continue;
        if (found != NULL)
            return name_fail(type, "is not the only one; a user needs a certificate with exactly one", why);
        found = value;
    }
    if (found == NULL)
        return true;
    const unsigned char *name = ASN1_STRING_get0_data(found);
    if (!is_ascii(name, (size_t)ASN1_STRING_length(found)))
        return name_fail(type, "is not ASCII", why);
    return name_store(type, name, ASN1_STRING_length(found), out, why);
}

bool belfry_tls_name_read(const X509 *cert, enum belfry_tls_name type, char out[BELFRY_TLS_NAME_BYTES],
                          char why[BELFRY_TLS_NAME_WHY])
{
    int critical = -1; /* of the extension; -1: there is none */
    out[0] = '\0';
    if (type == BELFRY_TLS_NAME_CN)
        return read_common_name(X509_get_subject_name(cert), out, why);
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, &critical, NULL);
    if (names == NULL)
        return critical == -1 || name_fail(type, "cannot be read", why);
    bool usable = read_alternative(names, type, out, why);
    GENERAL_NAMES_free(names);
    return usable;
}
