/* src/net/tls_tickets.c */
#include "net/tls_tickets.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 16 /* RFC 5077, section 4 */

struct ticket_key {
    unsigned char name[NAME_BYTES]; /* in each ticket, in clear */
    unsigned char seal[32];         /* AES-256-CBC */
    unsigned char mac[32];          /* HMAC with SHA-256 */
};

enum { FRESH, OLD, N_KEYS };

struct belfry_tls_tickets {
    pthread_mutex_t mu;
    /* under mu, which is held for a copy */
    struct ticket_key keys[N_KEYS];
    bool has_old;
    uint64_t drawn_ms; /* the fresh one */
};

static bool draw_key(struct ticket_key *key)
{
    return RAND_bytes(key->name, sizeof(key->name)) == 1 && RAND_priv_bytes(key->seal, sizeof(key->seal)) == 1 &&
           RAND_priv_bytes(key->mac, sizeof(key->mac)) == 1;
}

enum belfry_err belfry_tls_tickets_create(uint64_t now_ms, struct belfry_tls_tickets **out)
{
    struct belfry_tls_tickets *tickets = calloc(1, sizeof(*tickets));
    if (tickets == NULL)
        return BELFRY_ERR_NOMEM;
    if (!draw_key(&tickets->keys[FRESH])) {
        free(tickets);
        return BELFRY_ERR_TLS;
    }
    pthread_mutex_init(&tickets->mu, NULL);
    tickets->drawn_ms = now_ms;
    *out = tickets;
    return BELFRY_OK;
}

void belfry_tls_tickets_destroy(struct belfry_tls_tickets *tickets)
{
    if (tickets == NULL)
        return;
    pthread_mutex_destroy(&tickets->mu);
    OPENSSL_cleanse(tickets->keys, sizeof(tickets->keys));
    free(tickets);
}

void belfry_tls_tickets_rotate(struct belfry_tls_tickets *tickets, uint64_t now_ms)
{
    struct ticket_key drawn;
    pthread_mutex_lock(&tickets->mu);
    uint64_t age_ms = now_ms - tickets->drawn_ms;
    pthread_mutex_unlock(&tickets->mu);
    if (age_ms < BELFRY_TLS_TICKETS_SPAN_MS || !draw_key(&drawn))
        return;
    pthread_mutex_lock(&tickets->mu);
    tickets->has_old = age_ms < 2 * BELFRY_TLS_TICKETS_SPAN_MS; /* the machine may have slept */
    if (tickets->has_old)
        tickets->keys[OLD] = tickets->keys[FRESH];
    else
        OPENSSL_cleanse(&tickets->keys[OLD], sizeof(tickets->keys[OLD]));
    tickets->keys[FRESH] = drawn;
    tickets->drawn_ms = now_ms;
    pthread_mutex_unlock(&tickets->mu);
    OPENSSL_cleanse(&drawn, sizeof(drawn));
}

/* ---- for OpenSSL ---- */

/* The key of this name; false: it has been wiped, or was never ours. */
static bool find_key(struct belfry_tls_tickets *tickets, const unsigned char *name, struct ticket_key *out)
{
    bool found = false;
    pthread_mutex_lock(&tickets->mu);
    for (int i = FRESH; i < (tickets->has_old ? N_KEYS : OLD) && !found; i++) {
        found = memcmp(tickets->keys[i].name, name, NAME_BYTES) == 0;
        if (found)
            *out = tickets->keys[i];
    }
    pthread_mutex_unlock(&tickets->mu);
    return found;
}

static bool set_mac_key(EVP_MAC_CTX *mac, struct ticket_key *key)
{
    static char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof(key->mac)),
                           OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_END};
    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* SSL_CTX_set_tlsext_ticket_key_evp_cb(3): 1: go on with these keys; 0: no ticket, or none of ours, so a full handshake
 * follows; -1: the handshake fails. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                     int sealing)
{
    struct belfry_tls_tickets *tickets = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    struct ticket_key key;
    bool fine;
    if (sealing != 0) {
        pthread_mutex_lock(&tickets->mu);
        key = tickets->keys[FRESH];
        pthread_mutex_unlock(&tickets->mu);
        memcpy(name, key.name, NAME_BYTES);
        fine = RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 &&
               EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.seal, iv) == 1 && set_mac_key(mac, &key);
    } else {
        if (!find_key(tickets, name, &key))
            return 0;
        fine = set_mac_key(mac, &key) && EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.seal, iv) == 1;
    }
    OPENSSL_cleanse(&key, sizeof(key));
    return fine ? 1 : -1;
}

void belfry_tls_tickets_serve(struct belfry_tls_tickets *tickets, SSL_CTX *ctx)
{
    SSL_CTX_set_app_data(ctx, tickets);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket);
    SSL_CTX_set_timeout(ctx, (long)(BELFRY_TLS_TICKETS_SPAN_MS / 1000));
    SSL_CTX_set_num_tickets(ctx, 1);
}
