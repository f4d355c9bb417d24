/* src/serve/sse/ticket_test.c */
#include "serve/sse/ticket.h"

#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "serve/sse/tickets.h"
#include "support/refuse.h"

#define NOW  INT64_C(1800000000)
#define LIFE 300

static const struct ticket_keys one_key = {.key = {{1, 2, 3}}, .n = 1};

static struct identity token_of(const char *text)
{
    return identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str(text));
}

static struct identity cert_of(const char *name)
{
    return (struct identity){.kind = IDENTITY_CERT, .text = belfry_bytes_str(name)};
}

/* The text of a ticket; in `out`, which the caller ends. */
static struct belfry_bytes seal_with(const struct ticket_keys *keys, const struct identity *who, struct belfry_buf *out)
{
    int64_t expires_s = 0;
    belfry_buf_init(out);
    assert_int_equal(ticket_seal(keys, &(struct ticket_order){who, NOW, NOW, LIFE}, out, &expires_s), BELFRY_OK);
    assert_int_equal(expires_s, NOW + LIFE);
    return belfry_buf_bytes(out);
}

static enum belfry_err open_at(struct belfry_bytes text, int64_t now_s)
{
    struct ticket ticket;
    enum belfry_err err = ticket_open(&one_key, text, now_s, &ticket);
    if (err == BELFRY_OK)
        ticket_fini(&ticket);
    return err;
}

static void expect_same(const struct identity *who)
{
    struct belfry_buf text;
    struct ticket ticket;
    assert_int_equal(ticket_open(&one_key, seal_with(&one_key, who, &text), NOW + 1, &ticket), BELFRY_OK);
    assert_true(identity_same(&ticket.who, who));
    assert_int_equal(ticket.who.tag, who->tag);
    assert_false(ticket.who.accepted);
    assert_int_equal(ticket.born_s, NOW);
    assert_int_equal(ticket.expires_s, NOW + LIFE);
    ticket_fini(&ticket);
    belfry_buf_fini(&text);
}

static void every_kind_of_identity_comes_back(void **state)
{
    (void)state;
    struct identity none = {.kind = IDENTITY_NONE}, cert = cert_of("alice"), token = token_of("abc.def"),
                    empty = token_of(""), other = token;
    other.field = IDENTITY_FIELD_TOKEN;
    expect_same(&none);
    expect_same(&cert);
    expect_same(&token);
    expect_same(&empty);
    expect_same(&other);
    assert_int_equal(refuse_held(), 0);
}

static void the_longest_token_fits_and_a_longer_one_is_refused(void **state)
{
    (void)state;
    char *text = malloc(TICKET_IDENTITY_BYTES + 2);
    struct belfry_buf out;
    int64_t expires_s = 0;
    memset(text, 'x', TICKET_IDENTITY_BYTES + 1);
    text[TICKET_IDENTITY_BYTES + 1] = '\0';
    struct identity long_one = token_of(text);
    belfry_buf_init(&out);
    assert_int_equal(ticket_seal(&one_key, &(struct ticket_order){&long_one, NOW, NOW, LIFE}, &out, &expires_s),
                     BELFRY_ERR_TOO_LARGE);
    assert_int_equal(belfry_buf_len(&out), 0);
    text[TICKET_IDENTITY_BYTES] = '\0';
    long_one = token_of(text);
    expect_same(&long_one);
    assert_true(seal_with(&one_key, &long_one, &out).len <= TICKET_TEXT_MAX);
    belfry_buf_fini(&out);
    free(text);
}

static void a_ticket_hides_its_token_and_is_never_the_same_twice(void **state)
{
    (void)state;
    struct belfry_buf a, b, bytes;
    struct identity who = token_of("a-token-that-is-secret");
    struct belfry_bytes first = seal_with(&one_key, &who, &a), second = seal_with(&one_key, &who, &b);
    belfry_buf_init(&bytes);
    assert_false(belfry_bytes_equal(first, second));
    assert_int_equal(belfry_base64_decode(BELFRY_BASE64_URL, first, &bytes), BELFRY_OK);
    assert_null(memmem(bytes.data, belfry_buf_len(&bytes), "secret", 6));
    for (size_t i = 0; i < first.len; i++) /* it goes into a URL as it is */
        assert_non_null(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", first.data[i]));
    belfry_buf_fini(&bytes);
    belfry_buf_fini(&a);
    belfry_buf_fini(&b);
}

static void every_changed_bit_is_noticed(void **state)
{
    (void)state;
    struct belfry_buf text, bytes, changed;
    struct identity who = token_of("abc");
    belfry_buf_init(&bytes);
    belfry_buf_init(&changed);
    assert_int_equal(belfry_base64_decode(BELFRY_BASE64_URL, seal_with(&one_key, &who, &text), &bytes), BELFRY_OK);
    for (size_t bit = 0; bit < 8 * belfry_buf_len(&bytes); bit++) {
        bytes.data[bytes.start + bit / 8] ^= (uint8_t)(1 << bit % 8);
        belfry_buf_clear(&changed);
        assert_int_equal(belfry_base64_encode(BELFRY_BASE64_URL, belfry_buf_bytes(&bytes), &changed), BELFRY_OK);
        assert_int_equal(open_at(belfry_buf_bytes(&changed), NOW), BELFRY_ERR_AUTH);
        bytes.data[bytes.start + bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    belfry_buf_fini(&bytes);
    belfry_buf_fini(&changed);
    belfry_buf_fini(&text);
}

static void a_part_of_a_ticket_or_more_than_one_is_none(void **state)
{
    (void)state;
    struct belfry_buf text;
    struct identity who = token_of("abc");
    struct belfry_bytes whole = seal_with(&one_key, &who, &text);
    for (size_t len = 0; len < whole.len; len++)
        assert_int_equal(open_at(belfry_bytes_of(whole.data, len), NOW), BELFRY_ERR_AUTH);
    size_t len = whole.len;
    assert_int_equal(belfry_buf_append(&text, "AAAA", 4), BELFRY_OK);
    assert_int_equal(open_at(belfry_buf_bytes(&text), NOW), BELFRY_ERR_AUTH);
    assert_int_equal(open_at(belfry_bytes_of(belfry_buf_bytes(&text).data, len), NOW), BELFRY_OK);
    assert_int_equal(open_at(belfry_bytes_str("not/base64url="), NOW), BELFRY_ERR_AUTH);
    belfry_buf_fini(&text);
}

static void what_is_too_long_is_not_even_decoded(void **state)
{
    (void)state;
    size_t len = TICKET_TEXT_MAX + 1;
    char *text = malloc(len);
    memset(text, 'A', len);
    refuse_begin(0);
    assert_int_equal(open_at(belfry_bytes_of(text, len), NOW), BELFRY_ERR_AUTH);
    assert_false(refuse_end()); /* no allocation was tried */
    free(text);
}

static void a_ticket_expires(void **state)
{
    (void)state;
    struct belfry_buf out;
    struct identity who = cert_of("alice");
    struct belfry_bytes text = seal_with(&one_key, &who, &out);
    assert_int_equal(open_at(text, NOW + LIFE + TICKET_SKEW_S - 1), BELFRY_OK);
    assert_int_equal(open_at(text, NOW + LIFE + TICKET_SKEW_S), BELFRY_ERR_TIMEOUT);
    assert_int_equal(open_at(text, NOW + 100000), BELFRY_ERR_TIMEOUT);
    belfry_buf_fini(&out);
}

static void a_ticket_from_the_future_is_none_beyond_the_skew(void **state)
{
    (void)state;
    struct belfry_buf out;
    struct identity who = cert_of("alice");
    struct belfry_bytes text = seal_with(&one_key, &who, &out);
    assert_int_equal(open_at(text, NOW - TICKET_SKEW_S), BELFRY_OK);
    assert_int_equal(open_at(text, NOW - TICKET_SKEW_S - 1), BELFRY_ERR_AUTH);
    belfry_buf_fini(&out);
}

static void expect_chain_ends(const struct identity *who, int64_t chain_s)
{
    struct belfry_buf out;
    struct ticket ticket;
    int64_t expires_s = 0;
    belfry_buf_init(&out);
    assert_int_equal(
        ticket_seal(&one_key, &(struct ticket_order){who, NOW, NOW + chain_s - 10, LIFE}, &out, &expires_s), BELFRY_OK);
    assert_int_equal(expires_s, NOW + chain_s);
    assert_int_equal(ticket_open(&one_key, belfry_buf_bytes(&out), NOW + chain_s - 5, &ticket), BELFRY_OK);
    assert_int_equal(ticket.born_s, NOW); /* so that the next one knows it */
    ticket_fini(&ticket);
    expires_s = 7;
    assert_int_equal(ticket_seal(&one_key, &(struct ticket_order){who, NOW, NOW + chain_s, LIFE}, &out, &expires_s),
                     BELFRY_ERR_TIMEOUT);
    assert_int_equal(expires_s, 7);
    belfry_buf_fini(&out);
}

static void a_chain_of_tickets_ends_earlier_for_a_certificate(void **state)
{
    (void)state;
    struct identity token = token_of("abc"), cert = cert_of("alice");
    expect_chain_ends(&token, TICKET_CHAIN_S);
    expect_chain_ends(&cert, TICKET_CERT_CHAIN_S);
}

static void the_first_key_seals_and_all_open(void **state)
{
    (void)state;
    const struct ticket_keys rotated = {.key = {{9}, {8}, {1, 2, 3}}, .n = 3}, without = {.key = {{9}, {8}}, .n = 2};
    struct belfry_buf old_one, new_one;
    struct ticket ticket;
    struct identity who = token_of("abc");
    struct belfry_bytes by_old = seal_with(&one_key, &who, &old_one), by_new = seal_with(&rotated, &who, &new_one);
    assert_int_equal(ticket_open(&rotated, by_old, NOW, &ticket), BELFRY_OK);
    assert_true(identity_same(&ticket.who, &who));
    ticket_fini(&ticket);
    assert_int_equal(ticket_open(&without, by_new, NOW, &ticket), BELFRY_OK);
    ticket_fini(&ticket);
    assert_int_equal(ticket_open(&without, by_old, NOW, &ticket), BELFRY_ERR_AUTH);
    assert_int_equal(open_at(by_new, NOW), BELFRY_ERR_AUTH);
    belfry_buf_fini(&old_one);
    belfry_buf_fini(&new_one);
}

/* A ticket with any plain text, as a tier of another version may have sealed it. */
static enum belfry_err open_plain(const unsigned char *plain, size_t len)
{
    unsigned char whole[256] = {1};
    struct belfry_buf text;
    int n;
    belfry_buf_init(&text);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    assert_true(EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, one_key.key[0], whole + 1) == 1 &&
                EVP_EncryptUpdate(ctx, NULL, &n, whole, 1) == 1 &&
                EVP_EncryptUpdate(ctx, whole + 13, &n, plain, (int)len) == 1 &&
                EVP_EncryptFinal_ex(ctx, whole + 13 + n, &n) == 1 &&
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, 16, whole + 13 + len) == 1);
    EVP_CIPHER_CTX_free(ctx);
    assert_int_equal(belfry_base64_encode(BELFRY_BASE64_URL, belfry_bytes_of(whole, 13 + len + 16), &text), BELFRY_OK);
    enum belfry_err err = open_at(belfry_buf_bytes(&text), 1000);
    belfry_buf_fini(&text);
    return err;
}

static void what_is_sealed_must_make_sense_too(void **state)
{
    (void)state;
    /* kind, field, born 1000, expires 1256, "al" */
    const unsigned char fine[20] = {1, 0, 0, 0, 0, 0, 0, 0, 3, 0xe8, 0, 0, 0, 0, 0, 0, 4, 0xe8, 'a', 'l'};
    static const struct {
        size_t at;
        unsigned char byte;
    } faults[] = {{0, 3}, {0, 0}, {1, 2}, {2, 0x80}, {7, 1}, {10, 0x80}, {10, 1}, {16, 3}, {15, 1}};
    assert_int_equal(open_plain(fine, 20), BELFRY_OK);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        unsigned char plain[20];
        memcpy(plain, fine, sizeof(plain));
        plain[faults[i].at] = faults[i].byte;
        assert_int_equal(open_plain(plain, 20), BELFRY_ERR_AUTH);
    }
    assert_int_equal(open_plain(fine, 18), BELFRY_ERR_AUTH); /* a certificate without a name */
    assert_int_equal(open_plain(fine, 17), BELFRY_ERR_AUTH);
}

static void without_keys_there_are_no_tickets(void **state)
{
    (void)state;
    const struct ticket_keys none = {.n = 0};
    struct belfry_buf out;
    struct ticket ticket;
    int64_t expires_s;
    struct identity who = token_of("abc");
    belfry_buf_init(&out);
    assert_int_equal(ticket_seal(&none, &(struct ticket_order){&who, NOW, NOW, LIFE}, &out, &expires_s),
                     BELFRY_ERR_UNSUPPORTED);
    assert_int_equal(ticket_open(&none, belfry_bytes_str("AAAA"), NOW, &ticket), BELFRY_ERR_UNSUPPORTED);
    assert_int_equal(belfry_buf_len(&out), 0);
}

static void keys_in_force_are_replaced(void **state)
{
    (void)state;
    const struct ticket_keys other = {.key = {{9}}, .n = 1}, none = {.n = 0};
    struct tickets tickets;
    struct belfry_buf out;
    struct ticket ticket;
    int64_t expires_s;
    struct identity who = token_of("abc");
    belfry_buf_init(&out);
    tickets_init(&tickets);
    assert_false(tickets_has_keys(&tickets));
    assert_int_equal(tickets_seal(&tickets, &who, NOW, NOW, &out, &expires_s), BELFRY_ERR_UNSUPPORTED);
    assert_true(tickets_set(&tickets, &one_key, LIFE));
    assert_false(tickets_set(&tickets, &one_key, LIFE));
    assert_true(tickets_has_keys(&tickets));
    assert_int_equal(tickets_seal(&tickets, &who, NOW, NOW, &out, &expires_s), BELFRY_OK);
    assert_int_equal(tickets_open(&tickets, belfry_buf_bytes(&out), NOW, &ticket), BELFRY_OK);
    ticket_fini(&ticket);
    assert_true(tickets_set(&tickets, &other, LIFE));
    assert_int_equal(tickets_open(&tickets, belfry_buf_bytes(&out), NOW, &ticket), BELFRY_ERR_AUTH);
    assert_true(tickets_set(&tickets, &none, LIFE));
    assert_false(tickets_has_keys(&tickets));
    tickets_fini(&tickets);
    belfry_buf_fini(&out);
}

static enum belfry_err seal_and_open(void)
{
    struct belfry_buf text;
    struct ticket ticket;
    int64_t expires_s;
    struct identity who = token_of("abc");
    belfry_buf_init(&text);
    enum belfry_err err = ticket_seal(&one_key, &(struct ticket_order){&who, NOW, NOW, LIFE}, &text, &expires_s);
    if (err == BELFRY_OK)
        err = ticket_open(&one_key, belfry_buf_bytes(&text), NOW, &ticket);
    if (err == BELFRY_OK)
        ticket_fini(&ticket);
    belfry_buf_fini(&text);
    return err;
}

static void missing_memory_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(seal_and_open) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_identity_comes_back),
        cmocka_unit_test(the_longest_token_fits_and_a_longer_one_is_refused),
        cmocka_unit_test(a_ticket_hides_its_token_and_is_never_the_same_twice),
        cmocka_unit_test(every_changed_bit_is_noticed),
        cmocka_unit_test(a_part_of_a_ticket_or_more_than_one_is_none),
        cmocka_unit_test(what_is_too_long_is_not_even_decoded),
        cmocka_unit_test(a_ticket_expires),
        cmocka_unit_test(a_ticket_from_the_future_is_none_beyond_the_skew),
        cmocka_unit_test(a_chain_of_tickets_ends_earlier_for_a_certificate),
        cmocka_unit_test(the_first_key_seals_and_all_open),
        cmocka_unit_test(what_is_sealed_must_make_sense_too),
        cmocka_unit_test(without_keys_there_are_no_tickets),
        cmocka_unit_test(keys_in_force_are_replaced),
        cmocka_unit_test(missing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
