/* tests/storm/h2_line.c */
#include "storm/h2_line.h"

#include "base/clock.h"
#include "storm/verdict.h"

#define OUT_MAX (64 * 1024)

void h2_line_init(struct h2_line *h2, size_t door, unsigned number, uint32_t window, size_t reads)
{
    *h2 = (struct h2_line){.line = {.fd = -1}, .door = door, .window = window, .reads = reads};
    h2->address = client_address_ipv4((const uint8_t[]){10, 0, 0, (uint8_t)number}, 1);
    client_address_text(&h2->address, h2->peer);
}

void h2_line_open(struct h2_line *h2, void (*listen)(nghttp2_session_callbacks *callbacks), void *user)
{
    nghttp2_session_callbacks *callbacks;
    struct line_opts opts = {.door = h2->door, .client = h2->address, .with_cert = true};
    nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, h2->window};
    h2->connects++;
    line_open(&h2->line, &opts);
    verdict_must(nghttp2_session_callbacks_new(&callbacks) == 0, "nghttp2");
    listen(callbacks);
    verdict_must(nghttp2_session_client_new(&h2->session, callbacks, user) == 0, "nghttp2");
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(h2->session, 0, &window, 1);
    nghttp2_session_set_local_window_size(h2->session, 0, 0, 16 << 20);
}

void h2_line_close(struct h2_line *h2)
{
    line_close(&h2->line);
    nghttp2_session_del(h2->session);
    h2->session = NULL;
    h2->connect_ms = belfry_clock_ms() + H2_LINE_AGAIN_MS;
}

void h2_line_exchange(struct h2_line *h2)
{
    const uint8_t *data;
    ssize_t n;
    line_pull(&h2->line, h2->reads);
    struct belfry_bytes in = belfry_buf_bytes(&h2->line.in);
    if (in.len > 0 && nghttp2_session_mem_recv(h2->session, (const uint8_t *)in.data, in.len) < 0)
        verdict_fail("%s: the server broke the protocol", h2->peer);
    belfry_buf_clear(&h2->line.in);
    while (belfry_buf_len(&h2->line.out) < OUT_MAX && (n = nghttp2_session_mem_send(h2->session, &data)) > 0)
        verdict_must(belfry_buf_append(&h2->line.out, data, (size_t)n) == BELFRY_OK, "output");
    line_push(&h2->line, SIZE_MAX);
}
