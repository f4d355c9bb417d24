/* src/serve/sse/ticket.c */
#include "serve/sse/ticket.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/secret_file.h"

#define VERSION     1
#define NONCE_BYTES 12
#define TAG_BYTES   16
#define HEAD_BYTES  18 /* kind, field, born_s, expires_s */
#define CLEAR_BYTES (1 + NONCE_BYTES)
static_assert(CLEAR_BYTES + HEAD_BYTES + TAG_BYTES == TICKET_OVERHEAD_BYTES, "ticket.h draws the same layout");

/* ---- bytes ---- */

static void put_s(unsigned char to[8], int64_t seconds)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)((uint64_t)seconds >> (56 - 8 * i));
}

static int64_t get_s(const unsigned char from[8])
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | from[i];
    return (int64_t)value;
}

/* ---- the cipher ---- */

/* plain[0, len) is encrypted in place; `clear` is version and nonce. */
static bool encrypt(EVP_CIPHER_CTX *ctx, const unsigned char *key, const unsigned char *clear, unsigned char *plain,
                    size_t len, unsigned char tag[TAG_BYTES])
{
    int n;
    return EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, clear + 1) == 1 &&
           EVP_EncryptUpdate(ctx, NULL, &n, clear, 1) == 1 && EVP_EncryptUpdate(ctx, plain, &n, plain, (int)len) == 1 &&
           EVP_EncryptFinal_ex(ctx, plain + n, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1;
}

/* Decrypts sealed[0, len) to `plain`, which means something only if it returns true. */
static bool decrypt(EVP_CIPHER_CTX *ctx, const unsigned char *key, const unsigned char *clear,
                    const unsigned char *sealed, size_t len, const unsigned char *tag, unsigned char *plain)
{
    int n;
    unsigned char copy[TAG_BYTES]; /* OpenSSL takes it without const */
    memcpy(copy, tag, TAG_BYTES);
    return EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, clear + 1) == 1 &&
           EVP_DecryptUpdate(ctx, NULL, &n, clear, 1) == 1 &&
           EVP_DecryptUpdate(ctx, plain, &n, sealed, (int)len) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, copy) == 1 &&
           EVP_DecryptFinal_ex(ctx, plain + n, &n) == 1;
}

/* ---- sealing ---- */

static int64_t chain_s(enum identity_kind kind)
{
    return kind == IDENTITY_CERT ? TICKET_CERT_CHAIN_S : TICKET_CHAIN_S;
}

/* Writes the whole ticket to to[0, TICKET_OVERHEAD_BYTES + who->text.len). */
static enum belfry_err seal_bytes(const struct ticket_keys *keys, const struct identity *who, int64_t born_s,
                                  int64_t expires_s, unsigned char *to)
{
    unsigned char *plain = to + CLEAR_BYTES;
    size_t len = HEAD_BYTES + who->text.len;
    to[0] = VERSION;
    plain[0] = (unsigned char)who->kind;
    plain[1] = (unsigned char)who->field;
    put_s(plain + 2, born_s);
    put_s(plain + 10, expires_s);
    if (who->text.len > 0)
        memcpy(plain + HEAD_BYTES, who->text.data, who->text.len);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    bool sealed =
        ctx != NULL && RAND_bytes(to + 1, NONCE_BYTES) == 1 && encrypt(ctx, keys->key[0], to, plain, len, plain + len);
    EVP_CIPHER_CTX_free(ctx);
    ERR_clear_error();
    return sealed ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

enum belfry_err ticket_seal(const struct ticket_keys *keys, const struct ticket_order *order, struct belfry_buf *out,
                            int64_t *out_expires_s)
{
    const struct identity *who = order->who;
    int64_t expires_s = order->now_s + order->life_s, ends_s = order->born_s + chain_s(who->kind);
    unsigned char *to;
    struct belfry_buf whole;
    if (keys->n == 0)
        return BELFRY_ERR_UNSUPPORTED;
    if (who->text.len > TICKET_IDENTITY_BYTES)
        return BELFRY_ERR_TOO_LARGE;
    if (order->now_s >= ends_s)
        return BELFRY_ERR_TIMEOUT;
    if (expires_s > ends_s)
        expires_s = ends_s;
    belfry_buf_init(&whole);
    enum belfry_err err = belfry_buf_reserve(&whole, TICKET_OVERHEAD_BYTES + who->text.len, &to);
    if (err == BELFRY_OK)
        err = seal_bytes(keys, who, order->born_s, expires_s, to);
    if (err == BELFRY_OK) {
        belfry_buf_grown(&whole, TICKET_OVERHEAD_BYTES + who->text.len);
        err = belfry_base64_encode(BELFRY_BASE64_URL, belfry_buf_bytes(&whole), out);
    }
    belfry_secret_buf_fini(&whole); /* after a failure it may hold the token */
    if (err == BELFRY_OK)
        *out_expires_s = expires_s;
    return err;
}

/* ---- opening ---- */

/* Tries every key. The plain text is appended to `out`. Errors: BELFRY_ERR_AUTH, BELFRY_ERR_NOMEM. */
static enum belfry_err unseal(const struct ticket_keys *keys, struct belfry_bytes whole, struct belfry_buf *out)
{
    const unsigned char *clear = (const unsigned char *)whole.data;
    size_t len = whole.len - CLEAR_BYTES - TAG_BYTES;
    unsigned char *to;
    bool opened = false;
    enum belfry_err err = belfry_buf_reserve(out, len, &to);
    if (err != BELFRY_OK)
        return err;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (ctx == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < keys->n && !opened; i++)
        opened = decrypt(ctx, keys->key[i], clear, clear + CLEAR_BYTES, len, clear + CLEAR_BYTES + len, to);
    EVP_CIPHER_CTX_free(ctx);
    ERR_clear_error();
    if (!opened)
        return BELFRY_ERR_AUTH;
    belfry_buf_grown(out, len);
    return BELFRY_OK;
}

/* A tier wrote these bytes, but it may be of another version than ours. */
static enum belfry_err read_plain(struct ticket *ticket, int64_t now_s)
{
    struct belfry_bytes plain = belfry_buf_bytes(&ticket->plain);
    const unsigned char *head = (const unsigned char *)plain.data;
    struct belfry_bytes text = belfry_bytes_of(plain.data + HEAD_BYTES, plain.len - HEAD_BYTES);
    int64_t born_s = get_s(head + 2), expires_s = get_s(head + 10);
    if (head[0] > IDENTITY_TOKEN || head[1] > IDENTITY_FIELD_AUTHORIZATION || born_s < 0 || expires_s <= born_s)
        return BELFRY_ERR_AUTH;
    enum identity_kind kind = (enum identity_kind)head[0];
    bool fits = kind == IDENTITY_TOKEN  ? text.len <= TICKET_IDENTITY_BYTES
                : kind == IDENTITY_CERT ? text.len > 0 && text.len <= IDENTITY_USER_BYTES
                                        : text.len == 0;
    if (!fits || expires_s - born_s > chain_s(kind) || born_s - TICKET_SKEW_S > now_s)
        return BELFRY_ERR_AUTH;
    if (expires_s <= now_s - TICKET_SKEW_S)
        return BELFRY_ERR_TIMEOUT;
    if (kind == IDENTITY_TOKEN)
        ticket->who = identity_of_token((enum identity_field)head[1], text);
    else
        ticket->who = (struct identity){.kind = kind, .text = text};
    ticket->born_s = born_s;
    ticket->expires_s = expires_s;
    return BELFRY_OK;
}

/* `whole` is decoded. Fills *ticket, whose plain text is to be freed in any case. */
static enum belfry_err open_bytes(const struct ticket_keys *keys, struct belfry_bytes whole, int64_t now_s,
                                  struct ticket *ticket)
{
    if (whole.len < TICKET_OVERHEAD_BYTES || whole.data[0] != VERSION)
        return BELFRY_ERR_AUTH;
    enum belfry_err err = unseal(keys, whole, &ticket->plain);
    return err == BELFRY_OK ? read_plain(ticket, now_s) : err;
}

enum belfry_err ticket_open(const struct ticket_keys *keys, struct belfry_bytes text, int64_t now_s, struct ticket *out)
{
    struct ticket ticket = {.born_s = 0};
    struct belfry_buf whole;
    if (keys->n == 0)
        return BELFRY_ERR_UNSUPPORTED;
    if (text.len == 0 || text.len > TICKET_TEXT_MAX)
        return BELFRY_ERR_AUTH;
    belfry_buf_init(&whole);
    enum belfry_err err = belfry_base64_decode(BELFRY_BASE64_URL, text, &whole);
    if (err == BELFRY_ERR_INVALID)
        err = BELFRY_ERR_AUTH;
    if (err == BELFRY_OK)
        err = open_bytes(keys, belfry_buf_bytes(&whole), now_s, &ticket);
    belfry_buf_fini(&whole);
    if (err == BELFRY_OK)
        *out = ticket;
    else
        ticket_fini(&ticket);
    return err;
}

void ticket_fini(struct ticket *ticket)
{
    belfry_secret_buf_fini(&ticket->plain);
    *ticket = (struct ticket){.born_s = 0};
}
