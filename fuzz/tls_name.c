/* fuzz/tls_name.c: any bytes as a client's certificate (DER). A name that is read is clean and fits; when it is not
 * usable, the sentence is whole. */
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/tls_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void read_as(const X509 *cert, enum belfry_tls_name type)
{
    char name[BELFRY_TLS_NAME_BYTES], why[BELFRY_TLS_NAME_WHY];
    memset(name, 'x', sizeof(name));
    memset(why, 'x', sizeof(why));
    if (!belfry_tls_name_read(cert, type, name, why)) {
        check(memchr(why, '\0', sizeof(why)) != NULL && strstr(why, "client's certificate") != NULL);
    } else {
        check(memchr(name, '\0', sizeof(name)) != NULL);
        for (const char *at = name; *at != '\0'; at++)
            check((unsigned char)*at >= 0x20 && *at != 0x7f && *at != '"');
    }
    check(ERR_peek_error() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned char *at = data;
    X509 *cert = d2i_X509(NULL, &at, (long)size);
    ERR_clear_error();
    if (cert == NULL)
        return 0;
    read_as(cert, BELFRY_TLS_NAME_CN);
    read_as(cert, BELFRY_TLS_NAME_URI);
    read_as(cert, BELFRY_TLS_NAME_DNS);
    X509_free(cert);
    return 0;
}
