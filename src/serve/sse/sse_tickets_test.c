/* src/serve/sse/sse_tickets_test.c: tickets, from the request for the first to the end of a chain; and belfry.js. */
#include "serve/sse/sse_bed_test.h"

#define UNIX_NOW INT64_C(1800000000)
#define LIFE     300
#define HOUR_MS  (3600 * 1000)
#define TOKEN    "authorization: Bearer abc"

static const struct ticket_keys keys = {.key = {{1, 2, 3}}, .n = 1}, no_keys = {.n = 0};

static struct bed bed;
static struct tickets tickets;

static int64_t unix_now(void)
{
    return UNIX_NOW + (int64_t)(bed.now - NOW) / 1000;
}

static enum belfry_err try_open(const struct ticket_keys *in_force)
{
    static char ours[] = "https://ours.example";
    static char *const list[] = {ours};
    tickets_init(&tickets);
    tickets_set(&tickets, in_force, LIFE);
    return bed_open_as(&bed,
                       &(struct bed_opts){.scope = "", .origins = {list, 1}, .tickets = &tickets, .now_s = unix_now});
}

static void open_with(const struct ticket_keys *in_force)
{
    assert_int_equal(try_open(in_force), BELFRY_OK);
}

static void close_all(void)
{
    bed_close(&bed);
    tickets_fini(&tickets);
}

static struct fakeexchange *post(const char *field)
{
    const char *const fields[] = {field, NULL};
    return bed_ask(&bed, "POST", "/v1/ticket", fields);
}

/* The newest ticket in the body, which is taken; "": there is none. *n: how many there were. */
static const char *ticket_in(struct fakeexchange *peer, size_t *n)
{
    static const char name[] = "\"ticket\":\"";
    static char text[512];
    struct belfry_bytes body = bed_body(peer);
    text[0] = '\0';
    *n = 0;
    if (body.len == 0) /* in C, NULL + 0 is undefined */
        return text;
    const char *at = body.data, *end = body.data + body.len;
    for (; (at = memmem(at, (size_t)(end - at), name, strlen(name))) != NULL; ++*n) {
        at += strlen(name);
        const char *quote = memchr(at, '"', (size_t)(end - at));
        assert_non_null(quote);
        assert_true((size_t)(quote - at) < sizeof(text));
        snprintf(text, sizeof(text), "%.*s", (int)(quote - at), at);
    }
    belfry_buf_clear(&peer->body);
    return text;
}

static size_t tickets_said(struct fakeexchange *peer)
{
    size_t n;
    (void)ticket_in(peer, &n);
    return n;
}

static struct fakeexchange *get_with(const char *ticket)
{
    char query[400];
    snprintf(query, sizeof(query), "prefix=/a/&ticket=%.300s", ticket);
    return bed_get(&bed, query);
}

/* A stream that was opened with a ticket of `abc`, and has said its head. */
static struct fakeexchange *follow(void)
{
    size_t n;
    struct fakeexchange *peer = get_with(ticket_in(post(TOKEN), &n));
    bed_run(&bed);
    assert_int_equal(peer->status, 200);
    assert_int_equal(tickets_said(peer), 0);
    return peer;
}

/* ---- asking for one ---- */

static void ticket_is_for_the_credential_of_its_request(void **state)
{
    (void)state;
    struct ticket ticket;
    size_t n;
    open_with(&keys);
    struct fakeexchange *peer = post(TOKEN);
    assert_int_equal(peer->status, 200);
    assert_string_equal(fakeexchange_field(peer, "content-type"), "application/json");
    assert_string_equal(fakeexchange_field(peer, "cache-control"), "no-store");
    struct belfry_bytes body = bed_body(peer);
    assert_non_null(memmem(body.data, body.len, "\"expires_in\":300}", 17));
    const char *text = ticket_in(peer, &n);
    assert_int_equal(ticket_open(&keys, belfry_bytes_str(text), unix_now(), &ticket), BELFRY_OK);
    assert_int_equal(ticket.who.kind, IDENTITY_TOKEN);
    assert_true(belfry_bytes_equal(ticket.who.text, belfry_bytes_str("abc")));
    assert_int_equal(ticket.born_s, UNIX_NOW);
    ticket_fini(&ticket);
    close_all();
}

static void who_has_no_credential_gets_one_only_while_none_is_needed(void **state)
{
    (void)state;
    open_with(&keys);
    assert_int_equal(post(NULL)->status, 200);
    permit_close(&bed.permit);
    assert_int_equal(post(NULL)->status, 401);
    assert_int_equal(post(TOKEN)->status, 200);
    close_all();
}

static void tickets_need_a_key_and_a_post(void **state)
{
    (void)state;
    open_with(&no_keys);
    struct fakeexchange *peer = post(TOKEN);
    assert_int_equal(peer->status, 404);
    struct belfry_bytes body = bed_body(peer);
    assert_non_null(memmem(body.data, body.len, "ticket-key-file", 15));
    assert_int_equal(get_with("AAAA")->status, 400);
    peer = bed_ask(&bed, "GET", "/v1/ticket", NULL);
    assert_int_equal(peer->status, 405);
    assert_string_equal(fakeexchange_field(peer, "allow"), "POST, OPTIONS");
    close_all();
}

static void token_that_is_too_long_is_refused(void **state)
{
    (void)state;
    static char field[TICKET_IDENTITY_BYTES + 64] = "authorization: ";
    open_with(&keys);
    memset(field + strlen(field), 'x', TICKET_IDENTITY_BYTES + 1);
    assert_int_equal(post(field)->status, 400);
    close_all();
}

/* ---- using one ---- */

static void stream_with_a_ticket_has_the_rights_of_its_token(void **state)
{
    (void)state;
    size_t n;
    open_with(&keys);
    permit_close(&bed.permit);
    struct fakeexchange *peer = get_with(ticket_in(post(TOKEN), &n));
    assert_int_equal(bed.permit.n, 1);
    assert_string_equal(bed.permit.questions[0].token, "abc");
    assert_int_equal(peer->status, 0); /* nothing is said before the rights are known */
    permit_answer(&bed.permit, 0, PERMIT_REFUSED, PERMIT_DENIED);
    assert_int_equal(peer->status, 403);
    close_all();
}

static void ticket_that_is_none_or_has_expired_is_refused(void **state)
{
    (void)state;
    char path[512];
    const char *const both[] = {"authorization: abc", NULL};
    size_t n;
    open_with(&keys);
    const char *text = ticket_in(post(TOKEN), &n);
    snprintf(path, sizeof(path), "/v1/events?prefix=/a/&ticket=%s", text);
    assert_int_equal(get_with("AAAA")->status, 401);
    assert_int_equal(bed_ask(&bed, "GET", path, both)->status, 400);
    assert_int_equal(bed_ask(&bed, "GET", path, NULL)->status, 200);
    bed_pass(&bed, (LIFE + TICKET_SKEW_S) * 1000);
    struct fakeexchange *late = bed_ask(&bed, "GET", path, NULL);
    assert_int_equal(late->status, 401);
    struct belfry_bytes body = bed_body(late);
    assert_non_null(memmem(body.data, body.len, "has expired", 11));
    close_all();
}

/* ---- the next ones ---- */

static void next_ticket_comes_before_the_first_expires(void **state)
{
    (void)state;
    struct ticket ticket;
    size_t n;
    open_with(&keys);
    struct fakeexchange *peer = follow();
    bed_pass(&bed, LIFE * 800 - 1);
    assert_int_equal(tickets_said(peer), 0);
    bed_pass(&bed, 1);
    assert_says(peer, "event: ticket\ndata: {");
    const char *text = ticket_in(peer, &n);
    assert_int_equal(n, 1);
    assert_int_equal(ticket_open(&keys, belfry_bytes_str(text), unix_now(), &ticket), BELFRY_OK);
    assert_int_equal(ticket.born_s, UNIX_NOW); /* of the chain */
    assert_int_equal(ticket.expires_s, unix_now() + LIFE);
    ticket_fini(&ticket);
    bed_pass(&bed, LIFE * 800);
    assert_int_equal(tickets_said(peer), 1);
    close_all();
}

static void stream_without_a_ticket_receives_none(void **state)
{
    (void)state;
    open_with(&keys);
    struct fakeexchange *peer = bed_get(&bed, "prefix=/a/");
    bed_pass(&bed, HOUR_MS);
    assert_int_equal(tickets_said(peer), 0);
    close_all();
}

static void tickets_do_not_pile_up_for_a_client_that_does_not_read(void **state)
{
    (void)state;
    open_with(&keys);
    struct fakeexchange *peer = follow();
    peer->room = 0;
    bed_pass(&bed, HOUR_MS);
    assert_int_equal(tickets_said(peer), 0);
    fakeexchange_make_room(peer, EXCHANGE_ROOM);
    bed_pass(&bed, 2000);
    assert_int_equal(tickets_said(peer), 1); /* and not the twelve that it missed */
    close_all();
}

static void stream_that_is_paused_receives_no_ticket(void **state)
{
    (void)state;
    open_with(&keys);
    struct fakeexchange *peer = follow();
    bed.permit.paused = true;
    bed_pass(&bed, HOUR_MS);
    assert_int_equal(tickets_said(peer), 0);
    bed.permit.paused = false;
    bed_pass(&bed, 2000);
    assert_int_equal(tickets_said(peer), 1);
    close_all();
}

static void chain_of_tickets_ends_and_the_stream_goes_on(void **state)
{
    (void)state;
    size_t n = 0, all = 0;
    char last[512] = "";
    struct ticket ticket;
    open_with(&keys);
    struct fakeexchange *peer = follow();
    for (int hour = 0; hour < 13; hour++) {
        bed_pass(&bed, HOUR_MS);
        const char *text = ticket_in(peer, &n);
        fakeexchange_make_room(peer, EXCHANGE_ROOM);
        if (n > 0)
            snprintf(last, sizeof(last), "%s", text);
        all += n;
    }
    assert_int_equal(n, 0); /* in the thirteenth hour */
    assert_true(all >= TICKET_CHAIN_S / 240 - 1 && all < TICKET_CHAIN_S / 240 + 10);
    assert_int_equal(ticket_open(&keys, belfry_bytes_str(last), UNIX_NOW + TICKET_CHAIN_S - 1, &ticket), BELFRY_OK);
    assert_int_equal(ticket.expires_s, UNIX_NOW + TICKET_CHAIN_S);
    ticket_fini(&ticket);
    bed_put(&bed, "/a/k", "v");
    bed_run(&bed);
    assert_says(peer, CHANGES("11", PUT("/a/k", "v")));
    close_all();
}

static void stream_goes_on_when_the_keys_are_taken_away(void **state)
{
    (void)state;
    open_with(&keys);
    struct fakeexchange *peer = follow();
    tickets_set(&tickets, &no_keys, LIFE);
    bed_pass(&bed, HOUR_MS);
    assert_int_equal(tickets_said(peer), 0);
    assert_int_equal(peer->state, FAKEEXCHANGE_OPEN);
    close_all();
}

/* ---- belfry.js ---- */

static void script_is_served_to_pages(void **state)
{
    (void)state;
    const char *const ours[] = {"origin: https://ours.example", NULL}, *const other[] = {"origin: https://b", NULL};
    open_with(&no_keys);
    struct fakeexchange *peer = bed_ask(&bed, "GET", "/belfry.js", ours);
    assert_int_equal(peer->status, 200);
    assert_string_equal(fakeexchange_field(peer, "content-type"), "text/javascript; charset=utf-8");
    assert_string_equal(fakeexchange_field(peer, "access-control-allow-origin"), "https://ours.example");
    assert_says(peer, "/* belfry.js: ");
    peer = bed_ask(&bed, "GET", "/belfry.js", other);
    assert_int_equal(peer->status, 200);
    assert_null(fakeexchange_field(peer, "access-control-allow-origin"));
    assert_int_equal(bed_ask(&bed, "POST", "/belfry.js", NULL)->status, 405);
    close_all();
}

/* ---- memory ---- */

static enum belfry_err live_with_a_ticket(void)
{
    static char text[512];
    size_t n;
    enum belfry_err err = try_open(&keys);
    if (err == BELFRY_OK) {
        struct fakeexchange *peer = post(TOKEN);
        err = peer->status == 200 ? BELFRY_OK : BELFRY_ERR_NOMEM;
        snprintf(text, sizeof(text), "%s", ticket_in(peer, &n));
    }
    if (err == BELFRY_OK) {
        struct fakeexchange *peer = get_with(text);
        bed_pass(&bed, LIFE * 900);
        err = peer->state == FAKEEXCHANGE_OPEN && tickets_said(peer) == 1 ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    close_all();
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(live_with_a_ticket) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticket_is_for_the_credential_of_its_request),
        cmocka_unit_test(who_has_no_credential_gets_one_only_while_none_is_needed),
        cmocka_unit_test(tickets_need_a_key_and_a_post),
        cmocka_unit_test(token_that_is_too_long_is_refused),
        cmocka_unit_test(stream_with_a_ticket_has_the_rights_of_its_token),
        cmocka_unit_test(ticket_that_is_none_or_has_expired_is_refused),
        cmocka_unit_test(next_ticket_comes_before_the_first_expires),
        cmocka_unit_test(stream_without_a_ticket_receives_none),
        cmocka_unit_test(tickets_do_not_pile_up_for_a_client_that_does_not_read),
        cmocka_unit_test(stream_that_is_paused_receives_no_ticket),
        cmocka_unit_test(chain_of_tickets_ends_and_the_stream_goes_on),
        cmocka_unit_test(stream_goes_on_when_the_keys_are_taken_away),
        cmocka_unit_test(script_is_served_to_pages),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
