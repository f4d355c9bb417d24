/* src/net/tls_peer.c */
#include "net/tls_peer.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "net/tls_load.h"

/* Adds a name behind a comma; one that does not fit is left out. */
static void add_name(char out[BELFRY_TLS_PEER_TEXT], const char *name, size_t len)
{
    size_t used = strlen(out), comma = used > 0 ? 2 : 0;
    if (len == 0 || used + comma + len >= BELFRY_TLS_PEER_TEXT)
        return;
    memcpy(out + used, ", ", comma);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        out[used + comma + i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[used + comma + len] = '\0';
}

static void add_string(char out[BELFRY_TLS_PEER_TEXT], const ASN1_STRING *text)
{
    int len = ASN1_STRING_length(text);
    add_name(out, (const char *)ASN1_STRING_get0_data(text), len > 0 ? (size_t)len : 0);
}

static void add_address(char out[BELFRY_TLS_PEER_TEXT], const ASN1_OCTET_STRING *address)
{
    char text[INET6_ADDRSTRLEN];
    int len = ASN1_STRING_length(address);
    if ((len == 4 || len == 16) &&
        inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text, sizeof(text)) != NULL)
        add_name(out, text, strlen(text));
}

static void read_names(const X509 *cert, char out[BELFRY_TLS_PEER_TEXT])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            add_string(out, name->d.dNSName);
        else if (name->type == GEN_IPADD)
            add_address(out, name->d.iPAddress);
    }
    GENERAL_NAMES_free(names);
}

static void read_issuer(const X509 *cert, char out[BELFRY_TLS_PEER_TEXT])
{
    const X509_NAME *issuer = X509_get_issuer_name(cert);
    int at = X509_NAME_get_index_by_NID(issuer, NID_commonName, -1);
    if (at >= 0)
        add_string(out, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(issuer, at)));
}

void belfry_tls_peer_read(const X509 *cert, struct belfry_tls_peer *out)
{
    *out = (struct belfry_tls_peer){.begins_s = belfry_tls_time(X509_get0_notBefore(cert)),
                                    .expires_s = belfry_tls_time(X509_get0_notAfter(cert))};
    read_names(cert, out->names);
    read_issuer(cert, out->issuer);
    ERR_clear_error();
}
