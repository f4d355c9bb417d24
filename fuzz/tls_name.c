/* fuzz/tls_name.c: any bytes as a certificate (DER), of a client and of a server. A name that is read is clean and
 * fits; when it is not usable, the sentence is whole. */
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdint.h>
#include <string.h>

#include "fuzz/check.h"
#include "net/tls_name.h"
#include "net/tls_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

static void check_text(const char text[BELFRY_TLS_PEER_TEXT])
{
    check(memchr(text, '\0', BELFRY_TLS_PEER_TEXT) != NULL);
    for (; *text != '\0'; text++)
        check(*text >= 0x20 && *text < 0x7f);
}

static void read_as_peer(const X509 *cert)
{
    struct belfry_tls_peer peer;
    belfry_tls_peer_read(cert, &peer);
    check_text(peer.names);
    check_text(peer.issuer);
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
    read_as_peer(cert);
    X509_free(cert);
    return 0;
}
